#include "plugin/rabbitmq/consume/consumer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "plugin/delivery_facts.h"
#include "plugin/rabbitmq/wire/broker_headers.h"
#include "src/core/base/failpoint.h"

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

Consumer::Consumer(ConnectionLoop::Deps deps, ConsumedQueues& queues, Settings settings)
    : options_(deps.options),
      queues_(queues),
      epoch_(options_.heartbeat, settings.intake),
      unacked_(settings.max_bytes),
      loop_(deps, std::move(settings.loop), *this) {}

Consumer::~Consumer() { join(); }

void Consumer::ack(std::vector<DeliveryTag> tags) {
  if (tags.empty()) return;
  acks_.put(std::move(tags));
  loop_.wake();
}

void Consumer::requeue(std::vector<DeliveryTag> tags) {
  if (tags.empty()) return;
  requeues_.put(std::move(tags));
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

Calls Consumer::calls(Connection& connection) {
  return loop_.calls(connection, [this, &connection](const Frame& frame) { take_frame(connection, frame); });
}

Result<void> Consumer::prepare(Connection& connection) {
  begin_channel();
  intake_.begin_connection();
  Calls its = calls(connection);
  its.deadline = loop_.now() + time_to_prepare(connection.address());
  auto done = its.open_channel();
  if (done) done = queues_.declare(its);
  if (done && consuming()) done = queues_.consume(its);
  failed_preparations_ = done ? 0 : failed_preparations_ + 1;
  if (!done) return done;
  loop_.report_up(connection);
  queues_.up();
  epoch_.touch(loop_.now());
  epoch_.stand();
  return {};
}

void Consumer::begin_channel() {
  epoch_.next();
  unacked_.clear();
  deliveries_.clear();
  queues_.begin_channel();
}

// The broker has closed the channel, and redelivers what was unacked.
Result<void> Consumer::reopen_channel(Connection& connection) {
  epoch_.end();
  begin_channel();
  if (auto opened = loop_.calls(connection).open_channel(); !opened) return opened;
  epoch_.touch(loop_.now());
  epoch_.stand();
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
  if (queues_.must_change(consuming())) {
    if (auto done = change(connection); !done) return tl::unexpected(done.error());
    return loop_.now();  // frames that came meanwhile are already read
  }
  if (auto done = pause_or_go_on(connection); !done) return tl::unexpected(done.error());
  if (intake_.take_cancel()) queues_.send_cancel(connection);
  const bool acking = write_acks(connection);
  if (auto done = connection.flush(); !done) return tl::unexpected(done.error());
  if (acking && connection.unsent() == 0) failpoint("ack.after_write");
  if (auto done = connection.tick(); !done) return tl::unexpected(done.error());
  if (loop_.stopping()) {
    write_acks(connection);
    return loop_.finish(connection, kCloseTimeout);
  }
  return loop_.now() + epoch_.stall_timeout() / 2;
}

Result<bool> Consumer::read(Connection& connection) {
  return loop_.read(connection, [&](const Frame& frame) -> Result<bool> {
    if (frame.method() == AMQP_CHANNEL_CLOSE_METHOD) {
      connection.closed_by_peer(frame);
      return false;
    }
    take_frame(connection, frame);
    return true;
  });
}

void Consumer::over(const ConnectionLoop::End& end) {
  epoch_.end();
  queues_.down(end.why);
}

void Consumer::take_frame(Connection& connection, const Frame& frame) {
  if (frame.type != AMQP_FRAME_METHOD) {
    if (!content_.add(frame)) return;
    const std::size_t bytes = content_.bytes();
    incoming_.message = content_.take();
    if (!intake_.stopped()) delivered(std::move(incoming_), bytes);
    incoming_ = {};
    return;
  }
  switch (frame.method()) {
    case AMQP_BASIC_DELIVER_METHOD:
      if (const auto* m = connection.decode<amqp_basic_deliver_t>(frame)) {
        unacked_.delivered(m->delivery_tag);
        incoming_.tag = {epoch_.session(), m->delivery_tag};
        ConsumedQueues::Origin origin = queues_.origin(view(m->consumer_tag));
        incoming_.inlet = origin.inlet;
        incoming_.source = std::move(origin.source);
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

void Consumer::delivered(Delivery delivery, std::size_t bytes) {
  if (!unacked_.take(delivery.tag.tag, bytes)) return;
  take_back(delivery, options_);
  take_facts(delivery, *options_.error_queues,
             [](Delivery& its) { its.facts = take_broker_headers(its.message, its.inlet); });
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
  queues_.cancelled(tag);
}

void Consumer::hand_over() {
  if (deliveries_.empty()) return;
  std::vector<Delivery> batch;
  batch.swap(deliveries_);
  loop_.sink().on_deliveries(std::move(batch));
}

bool Consumer::write_acks(Connection& connection) {
  const auto is_current = [this](const DeliveryTag& tag) { return tag.session == epoch_.session(); };
  for (const DeliveryTag& one : requeues_.take()) {
    if (is_current(one)) unacked_.requeue(one.tag);
  }
  const std::vector<DeliveryTag>& acks = acks_.take();
  if (!acks.empty()) failpoint("ack.before_write");
  std::vector<std::uint64_t> tags;
  for (const DeliveryTag& one : acks) {
    if (is_current(one)) tags.push_back(one.tag);
  }
  unacked_.write_acks(std::move(tags), connection.out());
  unacked_.write_requeues(connection.out());
  return !acks.empty();
}

Result<void> Consumer::change(Connection& connection) {
  write_acks(connection);  // a queue that is refused ends this channel, and with it what is not acked
  const auto changed = queues_.change(calls(connection), consuming());
  epoch_.touch(loop_.now());
  if (!changed) return tl::unexpected(changed.error());
  return *changed == ConsumedQueues::Changed::channel_closed ? reopen_channel(connection) : Result<void>{};
}

Result<void> Consumer::pause_or_go_on(Connection& connection) {
  const IntakeSwitch::Step step = intake_.next();
  if (step.nothing()) return {};
  Result<void> done;
  if (step.return_deliveries) done = return_deliveries(connection);
  if (done && step.consume) done = queues_.consume(calls(connection));
  loop_.wake();  // frames that came with the answers are already read, and a wake-up may have been lost
  epoch_.touch(loop_.now());
  return done;
}

Result<void> Consumer::return_deliveries(Connection& connection) {
  write_acks(connection);  // committed messages stay with us
  epoch_.end();
  if (auto done = queues_.cancel(calls(connection)); !done) return done;
  deliveries_.clear();
  unacked_.requeue_all(connection.out());
  epoch_.next();
  epoch_.stand();
  return {};
}

// --- Rung's own queues

OwnQueues::OwnQueues(const BrokerOptions& options, OwnQueueTypes& types, BrokerSink& sink)
    : options_(options), types_(types), sink_(sink), inlets_(topology(options)) {
  std::erase_if(inlets_, [](const Declared& one) { return !one.inlet; });
}

// The report also comes with nothing in it: the topology is in order.
Result<void> OwnQueues::declare(const Calls& calls, Pass pass) {
  auto report = declare_topology(options_, types_, calls, pass);
  if (!report) {
    if (report.error().kind == Error::Kind::refused) sink_.on_topology({{}, report.error().message});
    return tl::unexpected(report.error());
  }
  auto repaired = std::exchange(cancelled_.queues, {});  // another may be cancelled during the calls below
  for (std::string& queue : repaired) {
    const auto found = calls.look_at_queue(queue);
    if (!found) return tl::unexpected(found.error());
    // basic.cancel does not say why. A queue that was deleted is empty now; after a consumer timeout our
    // messages are back in it, or at another instance.
    const bool was_there = found->message_count > 0 || found->consumer_count > 0;
    queue = (was_there ? "consumer of queue " : "queue ") + queue;
  }
  sink_.on_topology({std::move(repaired), std::move(report->problem)});
  return {};
}

Result<void> OwnQueues::consume(const Calls& calls) {
  auto done = calls.prefetch(static_cast<std::uint16_t>(std::clamp(options_.prefetch, 1, 65535)));
  for (auto one = inlets_.begin(); done && one != inlets_.end(); ++one) {
    done = calls.consume(one->name);
    if (!done) done.error().message = "consuming " + one->name + ": " + done.error().message;
  }
  return done;
}

Result<void> OwnQueues::cancel(const Calls& calls) {
  for (const Declared& one : inlets_) {
    if (auto done = calls.cancel(one.name); !done) return done;
  }
  return {};
}

void OwnQueues::send_cancel(Connection& connection) {
  for (const Declared& one : inlets_) rabbit::send_cancel(connection, one.name);
}

Result<ConsumedQueues::Changed> OwnQueues::change(const Calls& calls, bool consuming) {
  cancelled_.due = false;
  send_cancel(calls.connection);  // the remaining ones, so that all start in the same way
  auto done = declare(calls, Pass::consuming);
  if (done && consuming) done = consume(calls);
  if (!done) return tl::unexpected(done.error());
  return Changed::done;
}

void OwnQueues::cancelled(std::string_view consumer_tag) {
  cancelled_.due = true;
  cancelled_.queues.emplace_back(consumer_tag);
}

ConsumedQueues::Origin OwnQueues::origin(std::string_view consumer_tag) const {
  const auto it = std::ranges::find(inlets_, consumer_tag, &Declared::name);
  return {it == inlets_.end() ? Inlet::failed : *it->inlet};
}

}  // namespace rung::rabbit
