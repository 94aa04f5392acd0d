#include "plugin/rabbitmq/publisher.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "plugin/rabbitmq/codec.h"
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

}  // namespace

Publisher::Publisher(const BrokerOptions& options, const Url& url, std::shared_ptr<Tls> tls, Voice& voice)
    : options_(options), url_(url), tls_(std::move(tls)), voice_(voice) {}

Publisher::~Publisher() { join(); }

void Publisher::start() {
  thread_ = start_thread("rung-publish", [this] { run(); });
}

void Publisher::join() {
  if (!thread_.joinable()) return;
  thread_.join();
  // What was handed in while the thread ended: one result each, too.
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
    const auto began = Clock::now();
    auto connection = connect();
    Error why;
    if (connection) {
      voice_.publishing(true);
      why = serve(**connection);
      if (Clock::now() - began > kSteady) backoff_.reset();
    } else {
      why = connection.error();
    }
    connection_over(connection ? connection->get() : nullptr, why);
    if (!waker_.stopping()) {
      voice_.publishing(false, why.message);
      idle(Clock::now() + backoff_.next(!why.is_transient()));
    }
  }
  take_batch();
  give_up_pending();
  voice_.publishing(false, "stopped");
}

void Publisher::give_up_pending() {
  for (Sent& sent : pending_) result(sent.outgoing.token, How::lost, "stopped before it was sent");
  pending_.clear();
  hand_over();
}

Result<std::unique_ptr<Connection>> Publisher::connect() {
  auto connection = Connection::open(url_, tls_.get(), options_.heartbeat,
                                     options_.connection_name + " (publish)", waker_, Clock::now() + kSetUp);
  if (!connection) return connection;
  closing_.reset();
  if (auto done = open_channel(**connection); !done) return tl::unexpected(done.error());
  return connection;
}

Result<void> Publisher::open_channel(Connection& connection) {
  const auto deadline = Clock::now() + kSetUp;
  const Connection::Others others = [&](const Frame& frame) { take_frame(connection, frame); };
  if (auto done = connection.open_channel(waker_, deadline, others); !done) return done;
  amqp_confirm_select_t select{};
  auto selected = connection.call(AMQP_CONFIRM_SELECT_METHOD, &select, AMQP_CONFIRM_SELECT_OK_METHOD, waker_,
                                  deadline, others);
  if (!selected) return tl::unexpected(selected.error());
  return {};
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
    if (waker_.stopping() && (done_for_now() || Clock::now() + kKeptBack >= waker_.deadline())) break;
    connection.sleep(waker_, next_turn());
  }
  if (connection.unsent() == 0) connection.close(std::min(waker_.deadline(), Clock::now() + 5 * kKeptBack));
  return Error{Error::Kind::transient, "stopped"};
}

Clock::time_point Publisher::next_turn() const {
  auto at = Clock::now() + std::chrono::seconds{10};
  if (waker_.stopping()) at = std::min(at, waker_.deadline() - kKeptBack);
  if (!pending_.empty() || writing_ != 0) {
    const std::int64_t left = allow_until_.load(std::memory_order_acquire) - boot_now().ms;
    at = std::min(at, Clock::now() + Ms{std::max<std::int64_t>(left, 0) + 1});
  }
  return at;
}

void Publisher::idle(Clock::time_point until) {
  for (;;) {
    take_batch();
    if (fence_passed()) fence_pending();
    hand_over();
    if (waker_.stopping() || Clock::now() >= until) return;
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
        const Closing why = connection.closed_by_peer(frame);
        on_refusal(why, false);
        if (auto done = open_channel(connection); !done) return done;
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
        outstanding_.confirm(m->delivery_tag, m->multiple != 0, true, results_);
      }
      break;
    case AMQP_BASIC_NACK_METHOD:
      if (const auto* m = connection.decode<amqp_basic_nack_t>(frame)) {
        outstanding_.confirm(m->delivery_tag, m->multiple != 0, false, results_);
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

bool Publisher::fence_passed() const { return boot_now().ms >= allow_until_.load(std::memory_order_acquire); }

void Publisher::fence_pending() {
  for (Sent& sent : pending_) {
    result(sent.outgoing.token, sent.maybe_delivered ? How::lost : How::fenced,
           "not allowed to publish any more");
  }
  pending_.clear();
  suspects_ = 0;
}

bool Publisher::done_for_now() const { return pending_.empty() && outstanding_.empty(); }

Result<void> Publisher::send(Connection& connection) {
  for (;;) {
    if (fence_passed()) {
      fence_pending();
      // Cut, not finished: connection_over() tells what was whole from what was not.
      if (writing_ != 0 || (connection.unsent() > 0 && !outstanding_.empty())) {
        return transient("publishing was no longer allowed with a message half sent");
      }
    }
    if (auto done = connection.flush(); !done) return done;
    if (connection.unsent() > 0) return {};
    if (writing_ != 0) failpoint("publish.half_written");
    if (writing_ == 0 && !outstanding_.empty()) failpoint("publish.after_write");
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
    if (pending_.empty() || blocked_ || outstanding_.size() >= window) break;
    if (auto done = begin_message(connection); !done) return done;
  }
  return {};
}

// Why nothing can be published to it now; nullptr where it can be tried.
const std::string* Publisher::missing(const std::string& exchange) {
  if (missing_.empty()) return nullptr;
  const auto known = missing_.find(exchange);
  if (known == missing_.end()) return nullptr;
  if (Clock::now() < known->second.until) return &known->second.why;
  missing_.erase(known);
  return nullptr;
}

Result<void> Publisher::begin_message(Connection& connection) {
  Sent sent = std::move(pending_.front());
  pending_.pop_front();
  suspect_sent_ = suspects_ > 0;
  if (suspects_ > 0) --suspects_;
  const Outgoing& outgoing = sent.outgoing;
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
  std::string& out = connection.out();
  put8(out, AMQP_FRAME_METHOD);
  put16(out, kChannel);
  put32(out, static_cast<std::uint32_t>(4 + 2 + 1 + outgoing.exchange.size() + 1 +
                                        outgoing.routing_key.size() + 1));
  put32(out, AMQP_BASIC_PUBLISH_METHOD);
  put16(out, 0);  // ticket: unused
  put_short(out, outgoing.exchange);
  put_short(out, outgoing.routing_key);
  put8(out, 1);  // mandatory
  put8(out, AMQP_FRAME_END);
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
    for (Sent& sent : outstanding_.take_all()) {
      const bool whole = sent.end != 0 && sent.end <= written;
      if (sent.returned) {
        result(sent.outgoing.token, How::returned, std::move(sent.reason));
      } else if (whole || !fenced || sent.maybe_delivered) {
        result(sent.outgoing.token, How::lost, why.message);
      } else {
        result(sent.outgoing.token, How::fenced, "not allowed to publish any more");
      }
    }
  }
  closing_.reset();
  writing_ = 0;
  hand_over();
}

namespace {

// Whether the broker's reason is about this message. The wordings are RabbitMQ's, 3.x and 4.x.
bool blames(const Closing& why, const Outgoing& outgoing) {
  const Properties& p = outgoing.message.properties;
  const auto says = [&](const std::string& words) { return why.text.find(words) != std::string::npos; };
  if (!outgoing.exchange.empty() && says("exchange '" + outgoing.exchange + "'")) return true;
  if (p.user_id && says("user_id property set to '" + *p.user_id + "'")) return true;
  if (p.expiration && says("invalid expiration '" + *p.expiration + "'")) return true;
  return says("message size " + std::to_string(outgoing.message.body.size()) + " is larger");
}

}  // namespace

void Publisher::on_refusal(const Closing& why, bool hung_up) {
  constexpr int kStrikes = 2;
  std::vector<Sent> sent;
  for (Sent& one : outstanding_.take_all()) {
    if (one.returned) {
      result(one.outgoing.token, How::returned, std::move(one.reason));
    } else {
      sent.push_back(std::move(one));
    }
  }
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
    // No such exchange: as unroutable as a message without a queue. It may be there by the next attempt.
    constexpr int kNotFound = 404;
    const Outgoing& outgoing = sent[culprit].outgoing;
    result(outgoing.token, why.code == kNotFound ? How::returned : How::rejected, why.text);
    if (why.code == kNotFound && !outgoing.exchange.empty()) {
      if (missing_.size() >= kMostMissing) missing_.clear();
      missing_[outgoing.exchange] = {why.text, Clock::now() + kMissing};
    }
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
  hand_over();
}

void Publisher::result(std::uint64_t token, How how, std::string reason) {
  results_.push_back({token, how, std::move(reason)});
}

void Publisher::hand_over() {
  if (results_.empty()) return;
  std::vector<PublishResult> batch;
  batch.swap(results_);
  voice_.sink().on_published(std::move(batch));
}

}  // namespace rung::rabbit
