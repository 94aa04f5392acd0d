#include "plugin/rabbitmq/topology/queue_conversion.h"

#include <algorithm>
#include <map>
#include <utility>

#include "plugin/rabbitmq/topology/topology.h"
#include "plugin/rabbitmq/wire/codec.h"

namespace rung::rabbit {
namespace {

constexpr std::uint16_t kPrefetch = 200;
// A message whose route was looked up before the queue was unbound may arrive so much later.
constexpr Ms kSettle{1000}, kPause{10};
constexpr std::string_view kTag = "rung.convert";
constexpr std::size_t kHeaderFlags = 12;         // where the property flags stand in a content header
constexpr unsigned char kUserIdFlag = 1U << 4U;  // in the second byte of the flags

// The broker refuses a message whose user-id is not ours. Everything else is passed on as it is, byte by
// byte.
Result<std::string> without_user_id(std::string_view header) {
  const bool has_user = header.size() >= kHeaderFlags + 2 &&
                        (static_cast<unsigned char>(header[kHeaderFlags + 1]) & kUserIdFlag) != 0;
  if (!has_user) return std::string(header);
  Message message;
  std::uint64_t body_size = 0;
  if (!decode_content_header(header, message, body_size))
    return permanent("a message with a user-id has properties that cannot be read");
  message.properties.user_id.reset();
  std::string out;
  if (auto done = encode_content_header(message, out); !done) return tl::unexpected(done.error());
  // The encoder writes the size of the message's own body, which is not here.
  std::string size;
  put64(size, body_size);
  out.replace(4, size.size(), size);
  return out;
}

std::uint64_t body_size_of(std::string_view header) {
  std::uint64_t size = 0;
  for (std::size_t i = 4; i < 12 && i < header.size(); ++i)
    size = size << 8U | static_cast<unsigned char>(header[i]);
  return size;
}

}  // namespace

// Publishes each delivery again, and acks it when its confirm has come.
class QueueConverter::Mover {
 public:
  Mover(Connection& connection, std::string to, const std::vector<Binding>& bindings)
      : connection_(connection), to_(std::move(to)), bindings_(bindings) {}

  void take(const Frame& frame) {
    if (frame.type == AMQP_FRAME_HEADER || frame.type == AMQP_FRAME_BODY) return content(frame);
    switch (frame.method()) {
      case AMQP_BASIC_DELIVER_METHOD:
        if (const auto* m = connection_.decode<amqp_basic_deliver_t>(frame)) begin(*m);
        break;
      case AMQP_BASIC_ACK_METHOD:
        if (const auto* m = connection_.decode<amqp_basic_ack_t>(frame))
          confirmed(m->delivery_tag, m->multiple);
        break;
      case AMQP_BASIC_NACK_METHOD:
        fail("the broker refused a message");
        break;
      case AMQP_BASIC_RETURN_METHOD:
        fail("no queue took a message: a binding is missing");
        break;
      default:
        break;
    }
  }
  bool idle() const { return unconfirmed_.empty() && !reading_; }
  std::int64_t moved() const { return moved_; }
  const std::string& problem() const { return problem_; }

 private:
  void begin(const amqp_basic_deliver_t& delivery) {
    reading_ = true;
    header_.clear();
    body_.clear();
    tag_ = delivery.delivery_tag;
    exchange_ = view(delivery.exchange);
    routing_key_ = view(delivery.routing_key);
    if (std::ranges::find(bindings_, exchange_, &Binding::source) != bindings_.end()) return;
    exchange_.clear();
    routing_key_ = to_;
  }
  void content(const Frame& frame) {
    if (!reading_) return;  // of a returned message
    if (frame.type == AMQP_FRAME_HEADER) {
      header_ = frame.payload;
      left_ = body_size_of(header_);
    } else {
      body_.append(frame.payload);
      left_ -= std::min<std::uint64_t>(left_, frame.payload.size());
    }
    if (left_ > 0) return;
    reading_ = false;
    publish();
  }
  void publish() {
    auto header = without_user_id(header_);
    if (!header) return fail(header.error().message);
    amqp_basic_publish_t publish{};
    publish.exchange = bytes(exchange_);
    publish.routing_key = bytes(routing_key_);
    publish.mandatory = 1;
    connection_.method(kChannel, AMQP_BASIC_PUBLISH_METHOD, &publish);
    connection_.frame(AMQP_FRAME_HEADER, kChannel, *header);
    const std::size_t most = connection_.frame_max() - kFrameOverhead;
    for (std::size_t at = 0; at < body_.size(); at += most)
      connection_.frame(AMQP_FRAME_BODY, kChannel, std::string_view(body_).substr(at, most));
    unconfirmed_.emplace(++published_, tag_);
  }
  void confirmed(std::uint64_t number, bool multiple) {
    const auto end = unconfirmed_.upper_bound(number);
    const auto begin = multiple ? unconfirmed_.begin() : unconfirmed_.lower_bound(number);
    for (auto it = begin; it != end; ++it) {
      amqp_basic_ack_t ack{};
      ack.delivery_tag = it->second;
      connection_.method(kChannel, AMQP_BASIC_ACK_METHOD, &ack);
      ++moved_;
    }
    unconfirmed_.erase(begin, end);
  }
  void fail(std::string why) {
    if (problem_.empty()) problem_ = std::move(why);
  }

  Connection& connection_;
  const std::string to_;
  const std::vector<Binding>& bindings_;
  // The delivery that is being read.
  bool reading_ = false;
  std::uint64_t tag_ = 0, left_ = 0;
  std::string exchange_, routing_key_, header_, body_;
  std::uint64_t published_ = 0;
  std::map<std::uint64_t, std::uint64_t> unconfirmed_;  // publish -> delivery tag
  std::int64_t moved_ = 0;
  std::string problem_;
};

Result<std::unique_ptr<QueueConverter>> QueueConverter::open(const BrokerOptions& options, const Clock& clock,
                                                             Ms timeout) {
  auto opened = CommandConnection::open(options, clock, "convert", timeout);
  if (!opened) return tl::unexpected(opened.error());
  if (auto channel = (*opened)->calls().open_channel(); !channel) return tl::unexpected(channel.error());
  return std::unique_ptr<QueueConverter>(new QueueConverter(*std::move(opened)));
}

template <typename Ask>
std::invoke_result_t<Ask, const Calls&> QueueConverter::check(Ask&& ask) {
  auto done = ask(its_->calls());
  if (done || !its_->connection().channel_closed()) return done;
  const Closing closing = its_->connection().closing();
  if (auto opened = its_->calls().open_channel(); !opened) return tl::unexpected(opened.error());
  if (closing.code == AMQP_NOT_FOUND) return not_found(closing.text);
  return tl::unexpected(Error{Error::Kind::refused, closing.text});
}

Result<std::uint32_t> QueueConverter::consumers(const std::string& queue) {
  const auto found = check([&](const Calls& calls) { return calls.look_at_queue(queue); });
  if (!found) return tl::unexpected(found.error());
  return found->consumer_count;
}

Result<void> QueueConverter::declare(const std::string& queue, const std::string& type) {
  return check([&](const Calls& calls) { return calls.queue(queue, QueueArguments(type, queue).table()); });
}

Result<QueueConverter::There> QueueConverter::look(const std::string& queue, const std::string& type) {
  const auto users = consumers(queue);
  if (!users && users.error().kind == Error::Kind::not_found) return There::no;
  if (!users) return tl::unexpected(users.error());
  const auto same = declare(queue, type);
  if (same) return There::as_wanted;
  if (same.error().message.find("PRECONDITION_FAILED") != std::string::npos) return There::otherwise;
  return tl::unexpected(same.error());
}

Result<std::int64_t> QueueConverter::move_and_delete(const std::string& from, const std::string& to,
                                                     const std::vector<Binding>& bindings) {
  // A channel of its own: the numbers of publishes and deliveries begin anew.
  const auto begun = check([this](const Calls& calls) -> Result<void> {
    const amqp_channel_close_t close{};
    if (auto done = calls.send(AMQP_CHANNEL_CLOSE_METHOD, &close); !done) return done;
    if (auto done = its_->calls().open_channel(); !done) return done;
    const amqp_confirm_select_t confirm{};
    if (auto done = its_->calls().send(AMQP_CONFIRM_SELECT_METHOD, &confirm); !done) return done;
    amqp_basic_qos_t qos{};
    qos.prefetch_count = kPrefetch;
    return its_->calls().send(AMQP_BASIC_QOS_METHOD, &qos);
  });
  if (!begun) return tl::unexpected(begun.error());

  // Each call passes on the deliveries and confirms that come before its answer.
  Mover mover(its_->connection(), to, bindings);
  const auto calls = [&] { return its_->calls([&](const Frame& frame) { mover.take(frame); }); };
  // Exclusive until the queue is deleted: what is neither ready nor here is nowhere.
  amqp_basic_consume_t consume{};
  consume.queue = bytes(from);
  consume.consumer_tag = bytes(kTag);
  consume.exclusive = 1;
  if (auto done = calls().send(AMQP_BASIC_CONSUME_METHOD, &consume); !done)
    return tl::unexpected(done.error());
  Waker& waker = its_->waker();
  std::int64_t moved = 0;
  BootMs progress = waker.now(), busy = progress;
  while (waker.now() - busy < kSettle) {
    its_->connection().sleep(waker, waker.now() + kPause);
    const auto left = calls().look_at_queue(from);
    if (!left) return tl::unexpected(left.error());
    if (!mover.problem().empty()) return tl::unexpected(Error{Error::Kind::refused, mover.problem()});
    if (std::exchange(moved, mover.moved()) != mover.moved()) progress = waker.now();
    if (left->message_count > 0 || !mover.idle() || progress > busy) busy = waker.now();
    if (busy - progress > its_->timeout()) return transient("the broker confirms no message");
  }
  amqp_queue_delete_t remove{};
  remove.queue = bytes(from);
  if (auto done = calls().send(AMQP_QUEUE_DELETE_METHOD, &remove); !done) return tl::unexpected(done.error());
  return mover.moved();
}

Result<std::int64_t> QueueConverter::replace(const std::string& from, const std::string& to,
                                             const std::string& type, const std::vector<Binding>& bindings) {
  auto done = declare(to, type);
  for (auto one = bindings.begin(); done && one != bindings.end(); ++one)
    done = check([&](const Calls& calls) { return calls.bind(to, one->source, one->routing_key); });
  for (auto one = bindings.begin(); done && one != bindings.end(); ++one)
    done = check([&](const Calls& calls) { return calls.unbind(from, one->source, one->routing_key); });
  if (!done) return tl::unexpected(done.error());
  return move_and_delete(from, to, bindings);
}

Result<std::int64_t> QueueConverter::convert(const std::string& queue, const std::vector<Binding>& bindings,
                                             const std::string& type) {
  const std::string moving = moving_queue(queue);
  const auto found = look(queue, type);
  if (!found) return tl::unexpected(found.error());
  const auto left = look(moving, type);
  if (!left) return tl::unexpected(left.error());
  const bool differs = *found == There::otherwise;
  if (!differs && *left == There::no) return 0;
  if (*left == There::otherwise)
    return tl::unexpected(Error{Error::Kind::refused, moving + " is left by a conversion to another type: "
                                                               "finish that one first"});
  std::int64_t moved = 0;
  if (differs) {
    const auto users = consumers(queue);  // just before the first change: a sidecar may have come back
    if (!users) return tl::unexpected(users.error());
    if (*users > 0)
      return tl::unexpected(Error{Error::Kind::refused, queue + " has " + std::to_string(*users) +
                                                            " consumers: stop the sidecars first"});
    const auto out = replace(queue, moving, type, bindings);
    if (!out) return out;
    moved = *out;
  }
  const auto back = replace(moving, queue, type, bindings);
  if (!back) return back;
  return moved + *back;
}

}  // namespace rung::rabbit
