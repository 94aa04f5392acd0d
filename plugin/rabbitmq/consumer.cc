#include "plugin/rabbitmq/consumer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "plugin/rabbitmq/broker_headers.h"
#include "plugin/rabbitmq/codec.h"
#include "plugin/rabbitmq/threads.h"
#include "plugin/rabbitmq/topology.h"
#include "src/core/failpoint.h"

namespace rung::rabbit {
namespace {

constexpr auto kGoodbye =
    std::chrono::seconds{1};  // the longest that we wait for the broker's word at the end

// A loaded machine may keep a thread waiting for a while, too.
constexpr Ms kLeastStill{1000};

// RabbitMQ says no more than that. Messages of AMQP 1.0 clients are the one cause that we know, and it stays
// until a person does something.
Error why_closed(const Closing& closing) {
  std::string text = closing.text;
  if (closing.code == AMQP_INTERNAL_ERROR)
    text +=
        " (where it goes on: the broker cannot convert a message of an AMQP 1.0 client in one of our queues; "
        "docs/compatibility.md says how to mend it)";
  return {Error::Kind::transient, std::move(text)};
}

}  // namespace

Consumer::Consumer(const BrokerOptions& options, Addresses& addresses, std::shared_ptr<Tls> tls, Voice& voice)
    : options_(options),
      addresses_(addresses),
      tls_(std::move(tls)),
      voice_(voice),
      waker_(addresses.clock()),
      still_most_(std::max(options.heartbeat / 2, kLeastStill)) {}

Consumer::~Consumer() { join(); }

void Consumer::start() {
  thread_ = start_thread("rung-consume", [this] { run(); });
}

void Consumer::join() {
  if (thread_.joinable()) thread_.join();
}

void Consumer::ack(std::vector<DeliveryTag> tags) {
  if (tags.empty()) return;
  {
    std::lock_guard lock(mutex_);
    if (acks_.empty()) {
      acks_ = std::move(tags);
    } else {
      acks_.insert(acks_.end(), tags.begin(), tags.end());
    }
  }
  waker_.wake();
}

void Consumer::requeue(std::vector<DeliveryTag> tags) {
  if (tags.empty()) return;
  {
    std::lock_guard lock(mutex_);
    requeue_.insert(requeue_.end(), tags.begin(), tags.end());
  }
  waker_.wake();
}

void Consumer::stop_intake() {
  intake_stopped_.store(true, std::memory_order_release);
  waker_.wake();
}

void Consumer::pause_intake(bool yes) {
  if (yes) give_back_due_.store(true, std::memory_order_release);
  intake_paused_.store(yes, std::memory_order_release);
  waker_.wake();
}

bool Consumer::stands(std::uint32_t connection) const {
  return standing_.load(std::memory_order_acquire) == connection &&
         waker_.now().ms - last_turn_ms_.load(std::memory_order_acquire) <= still_most_.count();
}

// How long this thread was away, where that is too long. What it then reads may be long somebody else's.
std::optional<Ms> Consumer::stood_still() {
  const std::int64_t now = waker_.now().ms;
  const Ms away{now - last_turn_ms_.exchange(now, std::memory_order_acq_rel)};
  return away > still_most_ ? std::optional(away) : std::nullopt;
}

void Consumer::run() {
  while (!waker_.stopping()) {
    const auto began = waker_.now();
    auto connection = connect();
    Error why;
    if (connection) {
      voice_.consuming_at((*connection)->address().shown);
      last_turn_ms_.store(waker_.now().ms, std::memory_order_release);
      standing_.store(connection_number_, std::memory_order_release);
      why = serve(**connection);
      standing_.store(0, std::memory_order_release);
      addresses_.failed((*connection)->address());
      if (waker_.now() - began > kSteady) backoff_.reset();
    } else {
      why = connection.error();
    }
    if (waker_.stopping()) break;
    voice_.not_consuming(why);
    const auto until = waker_.now() + backoff_.next(why.kind != Error::Kind::transient);
    while (!waker_.stopping() && waker_.now() < until) waker_.sleep(-1, 0, until);
  }
  voice_.not_consuming(Error{Error::Kind::transient, "stopped"});
}

Result<std::unique_ptr<Connection>> Consumer::connect() {
  return Connection::open(addresses_, tls_.get(), options_.heartbeat, options_.connection_name + " (intake)",
                          waker_, kSetUp, [this](Connection& connection) { return prepare(connection); });
}

// While a cluster has no leader for a queue or for its metadata, RabbitMQ does not answer a declare, a bind
// or a consume, nor does it once there is a leader: what was asked before stays unanswered. A new connection
// is answered at once. So where there are several addresses, short tries go before a long one, which a slow
// broker may need.
Ms Consumer::time_to_prepare(const Address& address) {
  constexpr std::array<Ms, 4> kTries{Ms{1000}, Ms{2000}, Ms{2000}, Ms{kSetUp}};
  return address.alone ? Ms{kSetUp} : kTries[prepared_in_vain_ % kTries.size()];
}

Result<void> Consumer::prepare(Connection& connection) {
  ++connection_number_;
  window_ = {};
  held_.clear();
  shed_.clear();
  held_bytes_ = 0;
  deliveries_.clear();
  closing_.reset();
  cancelled_by_broker_ = consumers_cancelled_ = false;
  repaired_.clear();
  give_back_due_.store(false, std::memory_order_release);  // the old connection's end has done it
  given_back_ = intake_paused_.load(std::memory_order_acquire);
  const auto deadline = waker_.now() + time_to_prepare(connection.address());
  const Connection::Others nobody = [](const Frame&) {};
  auto done = connection.open_channel(waker_, deadline, nobody);
  if (done) done = declare_return_exchange(options_, connection, waker_, deadline, nobody);
  if (done) done = set_up(connection, deadline);
  prepared_in_vain_ = done ? 0 : prepared_in_vain_ + 1;
  return done;
}

Result<void> Consumer::set_up(Connection& connection, BootMs deadline) {
  const Connection::Others others = [&](const Frame& frame) { take_frame(connection, frame); };
  if (auto done = declare_topology(options_, connection, waker_, deadline, others); !done) {
    if (done.error().kind == Error::Kind::refused) voice_.topology({{}, done.error().message});
    return done;
  }
  auto repaired = std::exchange(repaired_, {});  // another one may be cancelled while we ask
  for (std::string& queue : repaired) {
    amqp_queue_declare_t look{};
    look.queue = bytes(queue);
    look.passive = 1;
    const auto answer = connection.call(AMQP_QUEUE_DECLARE_METHOD, &look, AMQP_QUEUE_DECLARE_OK_METHOD,
                                        waker_, deadline, others);
    if (!answer) return tl::unexpected(answer.error());
    const auto& ok = *static_cast<const amqp_queue_declare_ok_t*>(*answer);
    // basic.cancel does not say why. A queue that was gone is empty now; after a consumer timeout what we had
    // is back in it, or with another instance.
    const bool was_there = ok.message_count > 0 || ok.consumer_count > 0;
    queue = (was_there ? "consumer of queue " : "queue ") + queue;
  }
  voice_.topology({std::move(repaired), ""});
  if (given_back_ || intake_stopped_.load(std::memory_order_acquire)) return {};
  return consume_inlets(options_, connection, waker_, deadline, others);
}

Error Consumer::serve(Connection& connection) {
  for (;;) {
    if (const auto away = stood_still()) {
      return Error{Error::Kind::transient,
                   "this process stood still for " + std::to_string(away->count()) + " ms"};
    }
    if (auto done = read(connection); !done) return done.error();
    hand_over();
    if (closing_) return why_closed(*closing_);
    if (cancelled_by_broker_) {
      cancelled_by_broker_ = false;
      cancel_consumers(connection);  // those that are left, so that all are started in one way
      consumers_cancelled_ = false;
      if (auto done = set_up(connection, waker_.now() + kSetUp); !done) return done.error();
      last_turn_ms_.store(waker_.now().ms, std::memory_order_release);
      continue;
    }
    if (auto done = pause_or_go_on(connection); !done) return done.error();
    if (intake_stopped_.load(std::memory_order_acquire) && !consumers_cancelled_)
      cancel_consumers(connection);
    const bool acking = write_acks(connection);
    if (auto done = connection.flush(); !done) return done.error();
    if (acking && connection.unsent() == 0) failpoint("ack.after_write");
    if (auto done = connection.tick(); !done) return done.error();
    if (waker_.stopping()) break;
    connection.sleep(waker_, waker_.now() + still_most_ / 2);
  }
  write_acks(connection);
  connection.close(std::min(waker_.deadline(), waker_.now() + kGoodbye));
  return Error{Error::Kind::transient, "stopped"};
}

Result<void> Consumer::read(Connection& connection) {
  constexpr int kReads = 16;  // then acks and heartbeats have their turn
  for (int i = 0; i < kReads; ++i) {
    auto more = connection.fill();
    if (!more) return tl::unexpected(more.error());
    Frame frame;
    for (;;) {
      auto got = connection.next(frame);
      if (!got) return tl::unexpected(got.error());
      if (!*got) break;
      take_frame(connection, frame);
      if (closing_) return {};
    }
    if (!*more) return {};
    hand_over();
  }
  waker_.wake();  // there may be more: do not sleep
  return {};
}

void Consumer::take_frame(Connection& connection, const Frame& frame) {
  if (frame.type != AMQP_FRAME_METHOD) {
    if (!content_.add(frame)) return;
    incoming_.message = content_.take();
    if (!intake_stopped_.load(std::memory_order_acquire)) delivered(std::move(incoming_));
    incoming_ = {};
    return;
  }
  switch (frame.method()) {
    case AMQP_BASIC_DELIVER_METHOD:
      if (const auto* m = connection.decode<amqp_basic_deliver_t>(frame)) {
        window_.delivered();
        incoming_.tag = {connection_number_, m->delivery_tag};
        incoming_.inlet = inlet_from(view(m->consumer_tag)).value_or(Inlet::failed);
        incoming_.redelivered = m->redelivered != 0;
        incoming_.exchange = view(m->exchange);
        incoming_.routing_key = view(m->routing_key);
        content_.begin();
      }
      break;
    case AMQP_BASIC_CANCEL_METHOD:
      on_cancelled(connection, frame);
      break;
    case AMQP_CHANNEL_CLOSE_METHOD:
    case AMQP_CONNECTION_CLOSE_METHOD:
      closing_ = connection.closed_by_peer(frame);
      break;
    default:
      break;  // connection.blocked is the publisher's; cancel-ok needs nothing
  }
}

void Consumer::delivered(Delivery delivery) {
  const std::size_t bytes = delivery.message.body.size();
  if (held_bytes_ > 0 && held_bytes_ + bytes > options_.max_intake_bytes) {
    shed_.push_back(delivery.tag.tag);
    return;
  }
  held_bytes_ += bytes;
  held_.emplace(delivery.tag.tag, bytes);
  delivery.facts = take_broker_headers(delivery.message, delivery.inlet);
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
  cancelled_by_broker_ = true;
  const auto inlets = topology(options_);
  const auto it = std::ranges::find(inlets, inlet_from(tag), &Declared::inlet);
  if (it != inlets.end()) repaired_.push_back(it->name);
}

bool Consumer::write_acks(Connection& connection) {
  {
    std::lock_guard lock(mutex_);
    taken_acks_.clear();
    taken_acks_.swap(acks_);
    for (const DeliveryTag& tag : requeue_) {
      if (tag.connection != connection_number_) continue;
      release(tag.tag);
      shed_.push_back(tag.tag);
    }
    requeue_.clear();
  }
  const bool acking = !taken_acks_.empty();
  if (acking) failpoint("ack.before_write");
  tags_.clear();
  frames_.clear();
  for (const DeliveryTag& tag : taken_acks_) {
    if (tag.connection != connection_number_) continue;
    tags_.push_back(tag.tag);
    release(tag.tag);
  }
  window_.ack(tags_, frames_);
  std::string& out = connection.out();
  for (const AckFrame& ack : frames_) {
    put8(out, AMQP_FRAME_METHOD);
    put16(out, kChannel);
    put32(out, 13);
    put32(out, AMQP_BASIC_ACK_METHOD);
    put64(out, ack.tag);
    put8(out, ack.multiple ? 1 : 0);
    put8(out, AMQP_FRAME_END);
  }
  if (!shed_.empty() && held_bytes_ <= options_.max_intake_bytes / 2) ask_again(connection);
  return acking;
}

void Consumer::release(std::uint64_t tag) {
  if (const auto held = held_.extract(tag); !held.empty()) held_bytes_ -= held.mapped();
}

void Consumer::ask_again(Connection& connection) {
  constexpr int kRequeue = 2;  // the second bit; the first is `multiple`
  std::string& out = connection.out();
  for (const std::uint64_t tag : shed_) {
    window_.settled(tag);
    put8(out, AMQP_FRAME_METHOD);
    put16(out, kChannel);
    put32(out, 13);
    put32(out, AMQP_BASIC_NACK_METHOD);
    put64(out, tag);
    put8(out, kRequeue);
    put8(out, AMQP_FRAME_END);
  }
  shed_.clear();
}

// A pause that is over before we look at it has to give back all the same: who paused us has let go of what
// it had in hand.
Result<void> Consumer::pause_or_go_on(Connection& connection) {
  if (intake_stopped_.load(std::memory_order_acquire)) return {};
  const bool due = give_back_due_.exchange(false, std::memory_order_acq_rel);
  const bool pause = intake_paused_.load(std::memory_order_acquire);
  const bool give = !given_back_ && (due || pause), consume = !pause && (given_back_ || give);
  if (!give && !consume) return {};
  const Connection::Others others = [&](const Frame& frame) { take_frame(connection, frame); };
  Result<void> done;
  if (give) done = give_back(connection);
  if (done && consume) done = consume_inlets(options_, connection, waker_, waker_.now() + kSetUp, others);
  given_back_ = !consume;
  waker_.wake();  // what came with the answers is in hand, and a call to us may have been swallowed
  last_turn_ms_.store(waker_.now().ms, std::memory_order_release);
  return done;
}

// With nack and not reject: since 4.3 RabbitMQ counts only the latter to a quorum queue's delivery limit.
Result<void> Consumer::give_back(Connection& connection) {
  constexpr int kMultipleRequeue = 3;
  write_acks(connection);  // what is committed stays with us
  standing_.store(0, std::memory_order_release);
  const Connection::Others others = [&](const Frame& frame) { take_frame(connection, frame); };
  if (auto done = cancel_inlets(options_, connection, waker_, waker_.now() + kSetUp, others); !done)
    return done;
  deliveries_.clear();
  std::string& out = connection.out();
  put8(out, AMQP_FRAME_METHOD);
  put16(out, kChannel);
  put32(out, 13);
  put32(out, AMQP_BASIC_NACK_METHOD);
  put64(out, 0);  // all that is unacked
  put8(out, kMultipleRequeue);
  put8(out, AMQP_FRAME_END);
  window_.settle_all();
  held_.clear();
  held_bytes_ = 0;
  shed_.clear();
  standing_.store(++connection_number_, std::memory_order_release);
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
  consumers_cancelled_ = true;
}

void Consumer::hand_over() {
  if (deliveries_.empty()) return;
  std::vector<Delivery> batch;
  batch.swap(deliveries_);
  voice_.sink().on_deliveries(std::move(batch));
}

}  // namespace rung::rabbit
