#include "plugin/rabbitmq/consumer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "plugin/rabbitmq/broker_headers.h"
#include "plugin/rabbitmq/topology.h"
#include "src/core/failpoint.h"

namespace rung::rabbit {
namespace {

constexpr auto kCloseTimeout = std::chrono::seconds{1};  // wait for the answer to connection.close

// RabbitMQ gives no further details. The one known cause is messages of AMQP 1.0 clients, and it persists
// until a person acts.
Error closing_error(const Closing& closing) {
  std::string text = closing.text;
  if (closing.code == AMQP_INTERNAL_ERROR)
    text +=
        " (if this continues: the broker cannot convert a message of an AMQP 1.0 client in one of our "
        "queues; docs/compatibility.md says how to fix it)";
  return {Error::Kind::transient, std::move(text)};
}

}  // namespace

Consumer::Consumer(ConnectionLoop::Deps deps)
    : options_(deps.options),
      epoch_(options_.heartbeat),
      held_(options_.max_intake_bytes),
      loop_(std::move(deps),
            {.thread_name = "rung-consume",
             .purpose = "intake",
             .side = SinkAdapter::Side::intake,
             .prepare_decides_on_address = true},
            {.prepare = [this](Connection& connection) { return prepare(connection); },
             .turn = [this](Connection& connection) { return turn(connection); },
             .idle = {},
             .over = [this](const ConnectionLoop::End&) { epoch_.end(); },
             .stopped = {}}) {}

Consumer::~Consumer() { join(); }

void Consumer::ack(std::vector<DeliveryTag> tags) {
  if (tags.empty()) return;
  acks_.ack(std::move(tags));
  loop_.wake();
}

void Consumer::requeue(std::vector<DeliveryTag> tags) {
  if (tags.empty()) return;
  acks_.requeue(std::move(tags));
  loop_.wake();
}

void Consumer::stop_intake() {
  intake_.stop();
  loop_.wake();
}

void Consumer::pause_intake(bool yes) {
  intake_.pause(yes);
  loop_.wake();
}

// --- a new connection ---

// While a cluster has no leader for a queue or for its metadata, RabbitMQ does not answer a declare, a bind
// or a consume. Even after the election, requests sent before stay unanswered; a new connection is answered
// at once. So with several addresses we make short attempts before a long one, which a slow broker may need.
Ms Consumer::time_to_prepare(const Address& address) const {
  constexpr std::array<Ms, 4> kTries{Ms{1000}, Ms{2000}, Ms{2000}, Ms{kSetUpTimeout}};
  return address.alone ? Ms{kSetUpTimeout} : kTries[failed_preparations_ % kTries.size()];
}

Result<void> Consumer::prepare(Connection& connection) {
  begin_channel();
  intake_.begin_connection();
  const auto deadline = loop_.now() + time_to_prepare(connection.address());
  const Connection::Others nobody = [](const Frame&) {};
  auto done = connection.open_channel(loop_.waker(), deadline, nobody);
  if (done) done = declare_return_exchange(options_, connection, loop_.waker(), deadline, nobody);
  if (done) done = set_up(connection, deadline);
  failed_preparations_ = done ? 0 : failed_preparations_ + 1;
  if (!done) return done;
  loop_.sink().up(SinkAdapter::Side::intake, connection.address().shown);
  epoch_.touch(loop_.now());
  epoch_.stand();
  return {};
}

void Consumer::begin_channel() {
  epoch_.next();
  ack_writer_.begin_channel();
  held_.clear();
  deliveries_.clear();
  cancelled_ = {};
  errors_.begin_channel();
}

// Starts and stops consuming error queues. If the broker refuses one of them it closes the channel, and
// redelivers what was unacked: go on with a new channel, without that queue.
Result<void> Consumer::apply_error_queues(Connection& connection) {
  if (!errors_.changed() || !intake_.consuming() || intake_.stopped()) return {};
  const auto deadline = loop_.now() + kSetUpTimeout;
  const auto done = errors_.apply(connection, loop_.waker(), deadline, take_others(connection));
  loop_.wake();  // as in pause_or_go_on()
  epoch_.touch(loop_.now());
  if (done || !connection.channel_closed()) return done;
  epoch_.end();
  begin_channel();
  auto opened = connection.open_channel(loop_.waker(), deadline, [](const Frame&) {});
  if (opened) opened = set_up(connection, deadline);
  if (!opened) return opened;
  epoch_.touch(loop_.now());
  epoch_.stand();
  return {};
}

Result<void> Consumer::set_up(Connection& connection, BootMs deadline) {
  const auto others = take_others(connection);
  if (auto done = declare_topology(options_, connection, loop_.waker(), deadline, others); !done) {
    if (done.error().kind == Error::Kind::refused) loop_.sink().topology({{}, done.error().message});
    return done;
  }
  if (auto done = report_repaired(connection, deadline); !done) return done;
  if (!intake_.consuming() || intake_.stopped()) return {};
  return consume_inlets(options_, connection, loop_.waker(), deadline, others);
}

// Also called with nothing to report: the topology is in order.
Result<void> Consumer::report_repaired(Connection& connection, BootMs deadline) {
  auto repaired = std::exchange(cancelled_.queues, {});  // another may be cancelled during the calls below
  for (std::string& queue : repaired) {
    amqp_queue_declare_t look{};
    look.queue = bytes(queue);
    look.passive = 1;
    const auto answer = connection.call(AMQP_QUEUE_DECLARE_METHOD, &look, AMQP_QUEUE_DECLARE_OK_METHOD,
                                        loop_.waker(), deadline, take_others(connection));
    if (!answer) return tl::unexpected(answer.error());
    const auto& ok = *static_cast<const amqp_queue_declare_ok_t*>(*answer);
    // basic.cancel does not say why. A queue that was deleted is empty now; after a consumer timeout our
    // messages are back in it, or at another instance.
    const bool was_there = ok.message_count > 0 || ok.consumer_count > 0;
    queue = (was_there ? "consumer of queue " : "queue ") + queue;
  }
  loop_.sink().topology({std::move(repaired), ""});
  return {};
}

// --- one turn ---

Result<BootMs> Consumer::turn(Connection& connection) {
  if (const auto away = epoch_.touch_and_check(loop_.now()))
    return transient("this process stood still for " + std::to_string(away->count()) + " ms");
  const auto open = read(connection);
  if (!open) return tl::unexpected(open.error());
  hand_over();
  if (!*open) return tl::unexpected(closing_error(connection.closing()));
  if (cancelled_.due) {
    if (auto done = set_up_again(connection); !done) return tl::unexpected(done.error());
    return loop_.now();  // frames that came meanwhile are already read
  }
  if (auto done = pause_or_go_on(connection); !done) return tl::unexpected(done.error());
  if (auto done = apply_error_queues(connection); !done) return tl::unexpected(done.error());
  if (intake_.take_cancel()) cancel_consumers(connection);
  const bool acking = write_acks(connection);
  if (auto done = connection.flush(); !done) return tl::unexpected(done.error());
  if (acking && connection.unsent() == 0) failpoint("ack.after_write");
  if (auto done = connection.tick(); !done) return tl::unexpected(done.error());
  if (loop_.stopping()) {
    write_acks(connection);
    return loop_.finish(connection, std::min(loop_.stop_deadline(), loop_.now() + kCloseTimeout));
  }
  return loop_.now() + epoch_.stall_timeout() / 2;
}

Result<bool> Consumer::read(Connection& connection) {
  return loop_.read(
      connection,
      [&](const Frame& frame) -> Result<bool> {
        if (frame.method() == AMQP_CHANNEL_CLOSE_METHOD) {
          connection.closed_by_peer(frame);
          return false;
        }
        take_frame(connection, frame);
        return true;
      },
      [this] { hand_over(); });
}

Connection::Others Consumer::take_others(Connection& connection) {
  return [this, &connection](const Frame& frame) { take_frame(connection, frame); };
}

void Consumer::take_frame(Connection& connection, const Frame& frame) {
  if (frame.type != AMQP_FRAME_METHOD) {
    if (!content_.add(frame)) return;
    incoming_.message = content_.take();
    if (!intake_.stopped()) delivered(std::move(incoming_));
    incoming_ = {};
    return;
  }
  switch (frame.method()) {
    case AMQP_BASIC_DELIVER_METHOD:
      if (const auto* m = connection.decode<amqp_basic_deliver_t>(frame)) {
        ack_writer_.delivered();
        incoming_.tag = {epoch_.number(), m->delivery_tag};
        incoming_.source = errors_.queue_of(view(m->consumer_tag));
        incoming_.inlet = incoming_.source.empty() ? inlet_from(view(m->consumer_tag)).value_or(Inlet::failed)
                                                   : Inlet::error;
        incoming_.redelivered = m->redelivered != 0;
        incoming_.exchange = view(m->exchange);
        incoming_.routing_key = view(m->routing_key);
        content_.begin();
      }
      break;
    case AMQP_BASIC_CANCEL_METHOD:
      on_cancelled(connection, frame);
      break;
    default:
      break;  // the publisher handles connection.blocked; cancel-ok needs nothing
  }
}

void Consumer::delivered(Delivery delivery) {
  if (!held_.take(delivery.tag.tag, delivery.message.body.size())) return;
  const ErrorQueue* entry =
      delivery.inlet == Inlet::error ? options_.error_queues->find(delivery.source) : nullptr;
  delivery.returned_copy = entry != nullptr && is_returned_copy(*entry, delivery.message);
  if (!delivery.returned_copy) {
    DialectFacts read;
    if (entry != nullptr)
      read = read_dialect(*entry->dialect, delivery.message, {delivery.source, delivery.routing_key});
    delivery.facts = take_broker_headers(delivery.message, delivery.inlet);
    if (entry != nullptr) take_failure(*entry, std::move(read), delivery.message, delivery.facts);
  }
  deliveries_.push_back(std::move(delivery));
}

void Consumer::on_cancelled(Connection& connection, const Frame& frame) {
  const auto* m = connection.decode<amqp_basic_cancel_t>(frame);
  if (m == nullptr) return;
  const std::string tag(view(m->consumer_tag));
  if (m->nowait == 0) {
    amqp_basic_cancel_ok_t ok{};
    ok.consumer_tag = bytes(tag);
    connection.method(kChannel, AMQP_BASIC_CANCEL_OK_METHOD, &ok);
  }
  if (errors_.cancelled(tag)) return;
  cancelled_.due = true;
  const auto inlets = topology(options_);
  const auto it = std::ranges::find(inlets, inlet_from(tag), &Declared::inlet);
  if (it != inlets.end()) cancelled_.queues.push_back(it->name);
}

void Consumer::hand_over() {
  if (deliveries_.empty()) return;
  std::vector<Delivery> batch;
  batch.swap(deliveries_);
  loop_.sink().sink().on_deliveries(std::move(batch));
}

bool Consumer::write_acks(Connection& connection) {
  const AckMailbox::Taken& taken = acks_.take(epoch_.number());
  for (const std::uint64_t tag : taken.requeues) held_.requeue(tag);
  if (taken.any_acks) failpoint("ack.before_write");
  for (const std::uint64_t tag : taken.acks) held_.release(tag);
  ack_writer_.ack(taken.acks, connection.out());
  ack_writer_.requeue(held_.take_requeued(), connection.out());
  return taken.any_acks;
}

Result<void> Consumer::set_up_again(Connection& connection) {
  cancelled_.due = false;
  cancel_consumers(connection);  // the remaining ones, so that all start in the same way
  auto done = set_up(connection, loop_.now() + kSetUpTimeout);
  if (done) epoch_.touch(loop_.now());
  return done;
}

Result<void> Consumer::pause_or_go_on(Connection& connection) {
  const IntakeSwitch::Step step = intake_.next();
  if (step.nothing()) return {};
  Result<void> done;
  if (step.return_deliveries) done = return_deliveries(connection);
  if (done && step.consume) {
    done = consume_inlets(options_, connection, loop_.waker(), loop_.now() + kSetUpTimeout,
                          take_others(connection));
  }
  loop_.wake();  // frames that came with the answers are already read, and a wake-up may have been lost
  epoch_.touch(loop_.now());
  return done;
}

Result<void> Consumer::return_deliveries(Connection& connection) {
  write_acks(connection);  // committed messages stay with us
  epoch_.end();
  errors_.cancel(connection);  // its last deliveries come before the answers of the next
  if (auto done = cancel_inlets(options_, connection, loop_.waker(), loop_.now() + kSetUpTimeout,
                                take_others(connection));
      !done)
    return done;
  deliveries_.clear();
  ack_writer_.requeue_all(connection.out());
  held_.clear();
  epoch_.next();
  epoch_.stand();
  return {};
}

void Consumer::cancel_consumers(Connection& connection) {
  for (const Declared& one : topology(options_)) {
    if (!one.consumed) continue;
    amqp_basic_cancel_t cancel{};
    cancel.consumer_tag = bytes(consumer_tag(*one.inlet));
    cancel.nowait = 1;
    connection.method(kChannel, AMQP_BASIC_CANCEL_METHOD, &cancel);
  }
  errors_.cancel(connection);
}

}  // namespace rung::rabbit
