#include "plugin/rabbitmq/publisher.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "plugin/rabbitmq/codec.h"
#include "plugin/rabbitmq/return_route.h"
#include "plugin/rabbitmq/threads.h"
#include "src/core/failpoint.h"

namespace rung::rabbit {
namespace {

constexpr auto kKeptBack =
    std::chrono::milliseconds{100};  // kept back of the time to stop, for connection.close
// An exchange that was not there is not asked for again before: each time, the broker closes the channel, and
// all that is unconfirmed on it, for other targets too, is sent again or in doubt.
constexpr auto kMissing = std::chrono::seconds{1};
constexpr std::size_t kMostMissing = 1000;  // names come from messages
// An exchange that has neither confirmed nor refused a message for so long exists and lets us publish: a
// refusal comes at once. A queue behind it does not answer, and must not hold up other unproven exchanges.
// Nor must a queue that cannot be bound.
constexpr auto kAnswerMost = std::chrono::seconds{3};
constexpr std::uint64_t kCheckToken = ~std::uint64_t{0};  // the check of our rights; nobody asked for it
constexpr int kNotFound = 404, kAccessRefused = 403;
// Encoded ahead of the socket: enough for few system calls, little enough for the fence.
constexpr std::size_t kAhead = 128 * 1024;

// Why it could never be sent; "" = it can. Beyond this only the headers' size is left to see, once encoded.
// Bytes that are not UTF-8 are for the broker to judge: RabbitMQ takes them in a routing key, though no queue
// can be declared by such a name.
std::string unsendable(const Outgoing& outgoing) {
  if (outgoing.routing_key.size() > kShortMost) return "the queue's name or routing key is over 255 bytes";
  if (outgoing.exchange.size() > kShortMost) return "the exchange's name is over 255 bytes";
  return {};
}

void put_publish(std::string& out, const Outgoing& outgoing, bool mandatory) {
  put8(out, AMQP_FRAME_METHOD);
  put16(out, kChannel);
  put32(out, static_cast<std::uint32_t>(4 + 2 + 1 + outgoing.exchange.size() + 1 +
                                        outgoing.routing_key.size() + 1));
  put32(out, AMQP_BASIC_PUBLISH_METHOD);
  put16(out, 0);  // ticket: unused
  put_short(out, outgoing.exchange);
  put_short(out, outgoing.routing_key);
  put8(out, mandatory ? 1 : 0);
  put8(out, AMQP_FRAME_END);
}

}  // namespace

Publisher::Publisher(const BrokerOptions& options, Addresses& addresses, std::shared_ptr<Tls> tls,
                     Voice& voice, Siblings siblings)
    : options_(options),
      addresses_(addresses),
      tls_(std::move(tls)),
      voice_(voice),
      siblings_(std::move(siblings)),
      return_exchange_(return_exchange(options.prefix)),
      waker_(addresses.clock()) {
  if (siblings_.role == Role::main) outstanding_.keep_returned(return_exchange_);
}

Publisher::~Publisher() { join(); }

void Publisher::start() {
  thread_ = start_thread("rung-publish", [this] { run(); });
}

void Publisher::join() {
  if (thread_.joinable()) thread_.join();
  // What was handed in while the thread ended, or since: one result each, too.
  take_batch();
  give_up_pending();
}

void Publisher::publish(std::vector<Outgoing> batch) {
  if (batch.empty()) return;
  {
    std::lock_guard lock(mutex_);
    if (mailbox_.empty()) {
      mailbox_ = std::move(batch);
    } else {
      mailbox_.insert(mailbox_.end(), std::make_move_iterator(batch.begin()),
                      std::make_move_iterator(batch.end()));
    }
  }
  waker_.wake();
}

void Publisher::allow_until(BootMs deadline) {
  allow_until_.store(deadline.ms, std::memory_order_release);
  waker_.wake();
}

// --- the thread ---

void Publisher::run() {
  while (!waker_.stopping()) {
    const auto began = waker_.now();
    auto connection = connect();
    Error why;
    if (connection) {
      why = serve(**connection);
      // A helper gives its connection up for the sake of a queue or an exchange.
      if (siblings_.role == Role::main) addresses_.failed((*connection)->address());
      if (waker_.now() - began > kSteady) backoff_.reset();
    } else {
      why = connection.error();
    }
    connection_over(connection ? connection->get() : nullptr, why);
    if (rights_lost_ && siblings_.rights_lost) siblings_.rights_lost(why.message);
    // No further connection is allowed: unproven exchanges go by the main one, as the lesser evil.
    if (siblings_.role == Role::unproven && why.message.find("NOT_ALLOWED") != std::string::npos)
      pass_everything_on();
    if (!waker_.stopping()) {
      voice_.not_publishing(why);
      idle(waker_.now() + backoff_.next(why.kind != Error::Kind::transient));
    }
  }
  take_batch();
  give_up_pending();
  voice_.not_publishing(Error{Error::Kind::transient, "stopped"});
}

void Publisher::give_up_pending() {
  for (Sent& sent : pending_) result(sent.outgoing.token, How::lost, "stopped before it was sent");
  pending_.clear();
  hand_over();
}

Result<std::unique_ptr<Connection>> Publisher::connect() {
  rights_lost_ = false;
  auto connection = Connection::open(addresses_, tls_.get(), options_.heartbeat,
                                     options_.connection_name + " (publish)", waker_, kSetUp);
  if (!connection) return connection;
  at_ = (*connection)->address().shown;
  closing_.reset();
  if (siblings_.role == Role::main) siblings_.proven.clear();
  if (auto done = open_channel(**connection); !done) {
    addresses_.failed((*connection)->address());  // it let us in, and then it did not serve
    return tl::unexpected(done.error());
  }
  return connection;
}

// REQUIRES: nothing is outstanding.
Result<void> Publisher::open_channel(Connection& connection) {
  (void)outstanding_.take_all();  // delivery tags begin at 1 again
  const auto deadline = waker_.now() + kSetUp;
  const Connection::Others others = [&](const Frame& frame) { take_frame(connection, frame); };
  if (auto done = connection.open_channel(waker_, deadline, others); !done) return done;
  amqp_confirm_select_t select{};
  auto selected = connection.call(AMQP_CONFIRM_SELECT_METHOD, &select, AMQP_CONFIRM_SELECT_OK_METHOD, waker_,
                                  deadline, others);
  if (!selected) return tl::unexpected(selected.error());
  send_check(connection);
  return {};
}

// An empty message to the default exchange. No queue is named "", so the broker drops it once it has checked
// our right to publish. Not waited for here: in an alarm the answer comes when the alarm is over.
void Publisher::send_check(Connection& connection) {
  Sent check;
  check.outgoing.token = kCheckToken;
  header_.clear();
  (void)encode_content_header(check.outgoing.message, header_);
  put_publish(connection.out(), check.outgoing, false);
  connection.frame(AMQP_FRAME_HEADER, kChannel, header_);
  check.end = connection.appended();
  outstanding_.add(std::move(check));
  checking_ = true;
}

void Publisher::check_passed() {
  checking_ = false;
  voice_.publishing_at(at_);
  if (!refused_) return;
  remember_refusal(refused_->outgoing, refused_->reason);
  result(refused_->outgoing.token, How::returned, std::move(refused_->reason));
  refused_.reset();
}

Result<void> Publisher::channel_closed(Connection& connection, const Closing& why) {
  if (!checking_) {
    on_refusal(why, false);
    return open_channel(connection);
  }
  if (why.code != kAccessRefused) return transient(why.text);
  rights_lost_ = true;
  return tl::unexpected(Error{Error::Kind::refused, "the broker refuses every publish: " + why.text});
}

Error Publisher::serve(Connection& connection) {
  waker_.dropped();  // was about the one before
  for (;;) {
    if (const auto why = waker_.dropped()) return Error{Error::Kind::transient, *why};
    if (auto done = read(connection); !done) return done.error();
    if (closing_) return Error{Error::Kind::transient, closing_->text};
    take_batch();
    if (auto done = send(connection); !done) return done.error();
    if (auto done = connection.tick(); !done) return done.error();
    hand_over();
    if (answer_overdue()) {
      siblings_.proven.add(last_proof_);
      return Error{Error::Kind::transient, "no answer to a publish to an exchange that was not used before"};
    }
    if (waker_.stopping() && (done_for_now() || waker_.now() + kKeptBack >= waker_.deadline())) break;
    connection.sleep(waker_, next_turn());
  }
  if (connection.unsent() == 0) connection.close(std::min(waker_.deadline(), waker_.now() + 5 * kKeptBack));
  return Error{Error::Kind::transient, "stopped"};
}

BootMs Publisher::next_turn() const {
  auto at = waker_.now() + std::chrono::seconds{10};
  if (waker_.stopping()) at = std::min(at, waker_.deadline() - kKeptBack);
  if (siblings_.role == Role::unproven && !outstanding_.empty() && !checking_ && !blocked_ && writing_ == 0)
    at = std::min(at, sent_at_ + kAnswerMost);
  if (!pending_.empty() || writing_ != 0) {
    const std::int64_t left = allow_until_.load(std::memory_order_acquire) - waker_.now().ms;
    at = std::min(at, waker_.now() + Ms{std::max<std::int64_t>(left, 0) + 1});
  }
  return at;
}

bool Publisher::answer_overdue() const {
  return siblings_.role == Role::unproven && !outstanding_.empty() && !checking_ && !blocked_ &&
         writing_ == 0 && waker_.now() - sent_at_ >= kAnswerMost;
}

void Publisher::idle(BootMs until) {
  for (;;) {
    take_batch();
    if (fence_passed()) fence_pending();
    hand_over();
    if (waker_.stopping() || waker_.now() >= until) return;
    waker_.sleep(-1, 0, std::min(until, next_turn()));
  }
}

// --- reading ---

Result<void> Publisher::read(Connection& connection) {
  constexpr int kReads = 16;  // then publishes and heartbeats have their turn
  for (int i = 0; i < kReads; ++i) {
    auto more = connection.fill();
    if (!more) return tl::unexpected(more.error());
    Frame frame;
    for (;;) {
      auto got = connection.next(frame);
      if (!got) return tl::unexpected(got.error());
      if (!*got) break;
      if (frame.method() == AMQP_CHANNEL_CLOSE_METHOD) {
        if (auto done = channel_closed(connection, connection.closed_by_peer(frame)); !done) return done;
        continue;  // reopening has read on: `frame` is stale
      }
      take_frame(connection, frame);
      if (closing_) return {};
    }
    if (!*more) return {};
  }
  waker_.wake();  // there may be more: do not sleep
  return {};
}

void Publisher::take_frame(Connection& connection, const Frame& frame) {
  if (frame.type != AMQP_FRAME_METHOD) {
    if (content_.add(frame)) take_returned();
    return;
  }
  switch (frame.method()) {
    case AMQP_BASIC_ACK_METHOD:
      if (const auto* m = connection.decode<amqp_basic_ack_t>(frame)) {
        confirmed(m->delivery_tag, m->multiple != 0, true);
      }
      break;
    case AMQP_BASIC_NACK_METHOD:
      if (const auto* m = connection.decode<amqp_basic_nack_t>(frame)) {
        confirmed(m->delivery_tag, m->multiple != 0, false);
      }
      break;
    case AMQP_BASIC_RETURN_METHOD:
      if (const auto* m = connection.decode<amqp_basic_return_t>(frame)) {
        returned_.exchange = view(m->exchange);
        returned_.routing_key = view(m->routing_key);
        returned_reason_ = std::to_string(m->reply_code) + " " + std::string(view(m->reply_text));
        content_.begin();
      }
      break;
    case AMQP_CONNECTION_BLOCKED_METHOD:
      if (const auto* m = connection.decode<amqp_connection_blocked_t>(frame)) {
        blocked_ = true;
        if (checking_) voice_.publishing_at(at_);  // it stands; what it says of our rights comes later
        voice_.blocked(true, "blocked by the broker: " + std::string(view(m->reason)));
      }
      break;
    case AMQP_CONNECTION_UNBLOCKED_METHOD:
      blocked_ = false;
      voice_.blocked(false);
      break;
    case AMQP_CONNECTION_CLOSE_METHOD:
      closing_ = connection.closed_by_peer(frame);
      break;
    default:
      break;
  }
}

void Publisher::confirmed(std::uint64_t tag, bool multiple, bool ack) {
  // One message at a time: whatever the answer is, the exchange takes our messages.
  if (siblings_.role == Role::unproven && !checking_) siblings_.proven.add(last_proof_);
  outstanding_.confirm(tag, multiple, ack, results_);
  // Returned by <prefix>.return: the binding is gone. It is bound again and published once more.
  for (Outgoing& outgoing : outstanding_.take_returned()) {
    siblings_.proven.remove(proof_of(outgoing));
    pass_on_.push_back(std::move(outgoing));
  }
  if (checking_ && outstanding_.empty()) check_passed();
}

void Publisher::take_returned() {
  const Message message = content_.take();
  const std::string queue = returned_.routing_key;
  outstanding_.returned(
      returned_.exchange, returned_.routing_key, message,
      returned_reason_ + (returned_.exchange.empty() ? ": no queue " : ": no route for ") + queue);
}

// --- sending ---

void Publisher::take_batch() {
  {
    std::lock_guard lock(mutex_);
    batch_.clear();
    batch_.swap(mailbox_);
  }
  for (Outgoing& outgoing : batch_) {
    Sent& sent = pending_.emplace_back();
    sent.outgoing = std::move(outgoing);
  }
}

bool Publisher::fence_passed() const {
  return waker_.now().ms >= allow_until_.load(std::memory_order_acquire);
}

void Publisher::fence_pending() {
  for (Sent& sent : pending_) {
    result(sent.outgoing.token, sent.maybe_delivered ? How::lost : How::fenced,
           "not allowed to publish any more");
  }
  pending_.clear();
  suspects_ = 0;
}

bool Publisher::done_for_now() const {
  return pending_.empty() && !refused_ && (outstanding_.empty() || checking_);
}

Result<void> Publisher::send(Connection& connection) {
  for (;;) {
    if (fence_passed()) {
      fence_pending();
      // Cut, not finished: connection_over() tells what was whole from what was not.
      if (writing_ != 0 || (connection.unsent() > 0 && !outstanding_.empty() && !checking_)) {
        return transient("publishing was no longer allowed with a message half sent");
      }
    }
    if (auto done = connection.flush(); !done) return done;
    if (connection.unsent() > 0) return {};
    if (writing_ != 0) failpoint("publish.half_written");
    if (writing_ == 0 && !outstanding_.empty() && !checking_) failpoint("publish.after_write");
    const std::uint64_t before = connection.appended();
    if (auto done = write_more(connection); !done) return done;
    if (connection.appended() == before) return {};
  }
}

// Encodes as much as one write should carry.
Result<void> Publisher::write_more(Connection& connection) {
  while (connection.unsent() < kAhead) {
    if (writing_ != 0) {
      continue_body(connection);
      continue;
    }
    const bool one_at_a_time = suspects_ > 0 || suspect_sent_;
    const auto window =
        one_at_a_time ? std::size_t{1} : static_cast<std::size_t>(std::max(options_.max_unconfirmed, 1));
    if (outstanding_.empty()) suspect_sent_ = false;
    if (pending_.empty() || checking_ || blocked_ || outstanding_.size() >= window) break;
    if (auto done = begin_message(connection); !done) return done;
  }
  return {};
}

// Why nothing can be published to it now; nullptr where it can be tried.
const std::string* Publisher::missing(const std::string& exchange) {
  if (missing_.empty()) return nullptr;
  const auto known = missing_.find(exchange);
  if (known == missing_.end()) return nullptr;
  if (waker_.now() < known->second.until) return &known->second.why;
  missing_.erase(known);
  return nullptr;
}

bool Publisher::is_anothers(const Outgoing& outgoing) const {
  if (siblings_.role == Role::probe) return false;
  const std::string key = binding_key(outgoing, return_exchange_);
  const bool by_main =
      siblings_.proven.contains(proof_of(outgoing)) || (!key.empty() && siblings_.proven.unbindable(key));
  return by_main != (siblings_.role == Role::main);
}

// What has to be known before Role::main may publish it: its exchange, or the binding of its queue.
std::string Publisher::proof_of(const Outgoing& outgoing) const {
  std::string key = binding_key(outgoing, return_exchange_);
  return key.empty() ? outgoing.exchange : key;
}

// Falls back to the default exchange where the broker refuses to bind the queue.
void Publisher::route(Sent& sent) const {
  const std::string key = binding_key(sent.outgoing, return_exchange_);
  if (key.empty()) return;
  const auto why = siblings_.proven.unbindable(key);
  if (!why) return;
  use_default_exchange(sent.outgoing, key);
  sent.reason = *why;
}

// Binds the target queue, unless that is proven. False: the message has its result, or goes another way.
// Where the broker does not answer, the message waits: it is late rather than without its routing key.
Result<bool> Publisher::bound(Connection& connection, Sent& sent) {
  const std::string key = binding_key(sent.outgoing, return_exchange_);
  if (key.empty() || siblings_.role == Role::main || siblings_.proven.contains(key)) return true;
  const auto done = bind(connection, key);
  if (done) return true;
  const std::string& why = done.error().message;
  const int code = why == connection.closing().text ? connection.closing().code : 0;
  constexpr int kLocked = 405, kPrecondition = 406;
  if (code == kNotFound) {
    result(sent.outgoing.token, How::returned, why);
  } else if (code == kAccessRefused || code == kLocked || code == kPrecondition) {
    refused_binding(std::move(sent), key, why);
  } else {
    if (siblings_.role == Role::probe) {
      result(sent.outgoing.token, How::lost, "its queue could not be bound: " + why);
    } else {
      pending_.push_back(std::move(sent));  // other queues first
    }
    return tl::unexpected(done.error());
  }
  if (auto open = open_channel(connection); !open) return tl::unexpected(open.error());
  return false;
}

// Whoever publishes it next takes the default exchange.
void Publisher::refused_binding(Sent sent, const std::string& key, const std::string& why) {
  siblings_.proven.set_unbindable(key, why);
  if (siblings_.role == Role::probe) {
    sent.end = 0;
    pending_.push_front(std::move(sent));
  } else {
    pass_on_.push_back(std::move(sent.outgoing));
  }
}

Result<void> Publisher::bind(Connection& connection, const std::string& key) {
  const auto deadline = waker_.now() + kAnswerMost;
  const Connection::Others others = [&](const Frame& frame) { take_frame(connection, frame); };
  amqp_exchange_declare_t exchange{};
  exchange.exchange = bytes(return_exchange_);
  exchange.type = amqp_cstring_bytes("direct");
  exchange.durable = 1;
  auto done = connection.call(AMQP_EXCHANGE_DECLARE_METHOD, &exchange, AMQP_EXCHANGE_DECLARE_OK_METHOD,
                              waker_, deadline, others);
  if (!done) return tl::unexpected(done.error());
  const std::string queue = queue_of(key);
  amqp_queue_bind_t binding{};
  binding.queue = bytes(queue);
  binding.exchange = bytes(return_exchange_);
  binding.routing_key = bytes(key);
  done =
      connection.call(AMQP_QUEUE_BIND_METHOD, &binding, AMQP_QUEUE_BIND_OK_METHOD, waker_, deadline, others);
  if (!done) return tl::unexpected(done.error());
  return {};
}

Result<void> Publisher::begin_message(Connection& connection) {
  Sent sent = std::move(pending_.front());
  pending_.pop_front();
  suspect_sent_ = suspects_ > 0;
  if (suspects_ > 0) --suspects_;
  const Outgoing& outgoing = sent.outgoing;
  if (is_anothers(outgoing)) {
    pass_on_.push_back(std::move(sent.outgoing));
    return {};
  }
  route(sent);
  if (auto ready = bound(connection, sent); !ready || !*ready)
    return ready ? Result<void>{} : tl::unexpected(ready.error());
  if (const std::string* gone = missing(outgoing.exchange)) {
    result(outgoing.token, How::returned, *gone);
    return {};
  }
  std::string why = unsendable(outgoing);
  header_.clear();
  if (why.empty()) {
    if (auto encoded = encode_content_header(outgoing.message, header_); !encoded)
      why = encoded.error().message;
  }
  if (why.empty() && header_.size() > connection.frame_max() - kFrameOverhead) {
    why = "its headers are " + std::to_string(header_.size()) + " bytes, more than fit into a frame";
  }
  if (!why.empty()) {
    result(outgoing.token, How::rejected, std::move(why));
    return {};
  }
  failpoint("publish.before_write");
  put_publish(connection.out(), outgoing, true);
  if (siblings_.role == Role::unproven) {
    last_proof_ = proof_of(outgoing);
  }
  connection.frame(AMQP_FRAME_HEADER, kChannel, header_);
  writing_ = outstanding_.add(std::move(sent));
  body_at_ = 0;
  continue_body(connection);
  return {};
}

void Publisher::continue_body(Connection& connection) {
  Sent* sent = outstanding_.at(writing_);
  if (sent == nullptr) {  // cannot be: nothing settles what is not whole
    writing_ = 0;
    return;
  }
  const std::string_view body = sent->outgoing.message.body;
  const std::size_t most = connection.frame_max() - kFrameOverhead;
  while (body_at_ < body.size() && connection.unsent() < kAhead) {
    const std::string_view piece = body.substr(body_at_, most);
    connection.frame(AMQP_FRAME_BODY, kChannel, piece);
    body_at_ += piece.size();
  }
  if (body_at_ < body.size()) return;
  sent->end = connection.appended();
  writing_ = 0;
  sent_at_ = waker_.now();
}

// --- when it goes wrong ---

void Publisher::connection_over(Connection* connection, const Error& why) {
  if (blocked_) {
    blocked_ = false;
    voice_.blocked(false);
  }
  // A hang-up over what we sent, rather than a shutdown (320) or a cut.
  const bool hung_up = closing_ && (closing_->method == AMQP_BASIC_PUBLISH_METHOD || closing_->code >= 500);
  if (hung_up) {
    on_refusal(*closing_, true);
  } else {
    const bool fenced = fence_passed();
    const std::uint64_t written = connection != nullptr ? connection->written() : 0;
    for (Sent& sent : take_unsettled()) {
      const bool whole = sent.end != 0 && sent.end <= written;
      if (whole || !fenced || sent.maybe_delivered) {
        result(sent.outgoing.token, How::lost, why.message);
      } else {
        result(sent.outgoing.token, How::fenced, "not allowed to publish any more");
      }
    }
  }
  closing_.reset();
  writing_ = 0;
  checking_ = false;
  if (refused_) {  // nobody knows whether the others would have been taken
    refused_->strikes = 0;
    pending_.push_front(std::move(*refused_));
    refused_.reset();
  }
  hand_over();
}

// What is outstanding and has no answer; those that were returned get their results.
std::vector<Sent> Publisher::take_unsettled() {
  std::vector<Sent> sent;
  for (Sent& one : outstanding_.take_all()) {
    if (one.returned && siblings_.role == Role::main &&
        !binding_key(one.outgoing, return_exchange_).empty()) {
      siblings_.proven.remove(proof_of(one.outgoing));
      pass_on_.push_back(std::move(one.outgoing));
    } else if (one.returned) {
      result(one.outgoing.token, How::returned, std::move(one.reason));
    } else if (one.outgoing.token != kCheckToken) {
      sent.push_back(std::move(one));
    }
  }
  return sent;
}

namespace {

const std::string kDefaultExchange = "amq.default";  // as the broker's reasons call it

// Whether the broker's reason is about this message. The wordings are RabbitMQ's, 3.x and 4.x.
bool blames(const Closing& why, const Outgoing& outgoing) {
  const Properties& p = outgoing.message.properties;
  const auto says = [&](const std::string& words) { return why.text.find(words) != std::string::npos; };
  const std::string& exchange = outgoing.exchange.empty() ? kDefaultExchange : outgoing.exchange;
  if (says("exchange '" + exchange + "'"))
    return !says("access to topic '") || says("access to topic '" + outgoing.routing_key + "'");
  if (p.user_id && says("user_id property set to '" + *p.user_id + "'")) return true;
  if (p.expiration && says("invalid expiration '" + *p.expiration + "'")) return true;
  return says("message size " + std::to_string(outgoing.message.body.size()) + " is larger");
}

}  // namespace

void Publisher::on_refusal(const Closing& why, bool hung_up) {
  constexpr int kStrikes = 2;
  std::vector<Sent> sent = take_unsettled();
  writing_ = 0;
  const std::size_t still_suspect = suspects_;
  suspects_ = 0;
  std::size_t culprit = sent.size();
  if (sent.size() == 1) {
    if (!hung_up || ++sent[0].strikes >= kStrikes) culprit = 0;
  } else if (!hung_up) {
    const auto it =
        std::find_if(sent.begin(), sent.end(), [&](const Sent& s) { return blames(why, s.outgoing); });
    culprit = static_cast<std::size_t>(it - sent.begin());
  }
  std::size_t again_from = 0;
  suspect_sent_ = false;
  if (culprit < sent.size()) {
    for (std::size_t i = 0; i < culprit; ++i) result(sent[i].outgoing.token, How::lost, why.text);
    again_from = culprit + 1;
    suspects_ = still_suspect;
  } else {
    suspects_ = sent.size() + still_suspect;
    for (Sent& one : sent) one.maybe_delivered = true;
  }
  for (std::size_t i = sent.size(); i-- > again_from;) {
    sent[i].end = 0;
    pending_.push_front(std::move(sent[i]));
  }
  if (culprit < sent.size()) refused(std::move(sent[culprit]), why);
  hand_over();
}

// The one that the broker closed the channel for.
void Publisher::refused(Sent sent, const Closing& why) {
  const Outgoing& outgoing = sent.outgoing;
  if (outgoing.exchange == return_exchange_) {
    refused_return(std::move(sent), why);
    return;
  }
  siblings_.proven.remove(outgoing.exchange);
  if (why.code == kNotFound) {
    // No such exchange: as unroutable as a message without a queue. It may be there by the next attempt.
    remember_refusal(outgoing, why.text);
    result(outgoing.token, How::returned, why.text);
  } else if (why.code != kAccessRefused) {
    result(outgoing.token, How::rejected, why.text);
  } else if (is_anothers(outgoing)) {
    pass_on_.push_back(std::move(sent.outgoing));
  } else if (++sent.strikes < 2 || outgoing.exchange.empty()) {
    sent.end = 0;
    pending_.push_front(std::move(sent));  // once more, if the check of our rights passes
  } else {
    sent.reason = why.text;
    refused_ = std::move(sent);
  }
}

// <prefix>.return is ours: that it is gone, or refuses us, is not the message's fault.
void Publisher::refused_return(Sent sent, const Closing& why) {
  const std::string key = binding_key(sent.outgoing, return_exchange_);
  if ((why.code != kNotFound && why.code != kAccessRefused) || key.empty()) {
    result(sent.outgoing.token, How::rejected, why.text);
    return;
  }
  if (siblings_.role != Role::main) return refused_binding(std::move(sent), key, why.text);
  siblings_.proven.clear();  // no binding is left
  pass_on_.push_back(std::move(sent.outgoing));
}

void Publisher::remember_refusal(const Outgoing& outgoing, const std::string& why) {
  // Rights on topics differ by routing key.
  if (outgoing.exchange.empty() || why.find("access to topic '") != std::string::npos) return;
  if (missing_.size() >= kMostMissing) missing_.clear();
  missing_[outgoing.exchange] = {why, waker_.now() + kMissing};
}

void Publisher::pass_everything_on() {
  for (Sent& sent : pending_) {
    siblings_.proven.add(sent.outgoing.exchange);
    if (const std::string key = binding_key(sent.outgoing, return_exchange_); !key.empty())
      siblings_.proven.set_unbindable(key, "no further connection is allowed");
    pass_on_.push_back(std::move(sent.outgoing));
  }
  pending_.clear();
  hand_over();
}

void Publisher::result(std::uint64_t token, How how, std::string reason) {
  if (token != kCheckToken) results_.push_back({token, how, std::move(reason)});
}

void Publisher::hand_over() {
  if (!pass_on_.empty()) siblings_.pass_on(std::exchange(pass_on_, {}));
  std::erase_if(results_, [](const PublishResult& result) { return result.token == kCheckToken; });
  if (results_.empty()) return;
  std::vector<PublishResult> batch;
  batch.swap(results_);
  voice_.sink().on_published(std::move(batch));
}

}  // namespace rung::rabbit
