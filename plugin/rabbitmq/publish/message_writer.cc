#include "plugin/rabbitmq/publish/message_writer.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "plugin/rabbitmq/wire/codec.h"
#include "src/core/base/failpoint.h"

namespace rung::rabbit {
namespace {

bool same_message(const Message& a, const Message& b) {
  constexpr std::string_view kNames[] = {"retry-id", "retry-attempt"};
  if (a.properties.message_id != b.properties.message_id || a.body != b.body) return false;
  return std::all_of(std::begin(kNames), std::end(kNames), [&](std::string_view name) {
    const Value* x = find(a.headers, name);
    const Value* y = find(b.headers, name);
    return (x == nullptr) == (y == nullptr) && (x == nullptr || *x == *y);
  });
}

}  // namespace

std::uint64_t Outstanding::add(Sent sent) {
  sent_.emplace_hint(sent_.end(), ++last_, std::move(sent));
  return last_;
}

Sent* Outstanding::at(std::uint64_t tag) {
  const auto sent = sent_.find(tag);
  return sent == sent_.end() ? nullptr : &sent->second;
}

void Outstanding::settle(Sent& sent, bool ack, std::vector<PublishResult>& results) {
  using How = PublishResult::How;
  const How how = sent.returned ? How::returned : ack ? How::confirmed : How::nacked;
  if (how == How::nacked) sent.reason = "the broker refused it (basic.nack)";
  if (how == How::returned && keep_returned_ && !sent.outgoing.queue.empty()) {
    kept_.push_back(std::move(sent.outgoing));
  } else {
    results.push_back({sent.outgoing.token, how, std::move(sent.reason)});
  }
}

void Outstanding::confirm(std::uint64_t tag, bool multiple, bool ack, std::vector<PublishResult>& results) {
  // AMQP: tag 0 with `multiple` means all messages.
  const auto end = multiple && tag == 0 ? sent_.end() : sent_.upper_bound(tag);
  for (auto one = multiple ? sent_.begin() : sent_.lower_bound(tag); one != end; one = sent_.erase(one))
    settle(one->second, ack, results);
}

bool Outstanding::returned(const std::string& exchange, const std::string& routing_key,
                           const Message& message, std::string reason) {
  const auto find_from = [&](std::uint64_t tag) {
    return std::find_if(sent_.lower_bound(tag), sent_.end(), [&](const auto& one) {
      const Outgoing& outgoing = one.second.outgoing;
      return !one.second.returned && outgoing.exchange == exchange && outgoing.routing_key == routing_key &&
             same_message(outgoing.message, message);
    });
  };
  auto found = find_from(search_from_);
  if (found == sent_.end()) found = find_from(0);
  if (found == sent_.end()) return false;
  search_from_ = found->first + 1;
  found->second.returned = true;
  found->second.reason = std::move(reason);
  return true;
}

std::vector<Sent> Outstanding::take_all() {
  std::vector<Sent> all;
  all.reserve(sent_.size());
  for (auto& [tag, sent] : sent_) all.push_back(std::move(sent));
  sent_.clear();
  last_ = 1;
  search_from_ = 0;
  return all;
}

namespace {

// Checks that need no encoded headers. The broker decides about bytes that are not UTF-8: RabbitMQ accepts
// them in a routing key, though no queue can be declared with such a name.
Result<void> check_names(const Outgoing& outgoing) {
  if (outgoing.routing_key.size() > kShortMost)
    return permanent("the queue's name or routing key is over 255 bytes");
  if (outgoing.exchange.size() > kShortMost) return permanent("the exchange's name is over 255 bytes");
  return {};
}

// Appends the frame of basic.publish. REQUIRES: both names are at most kShortMost bytes.
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

Result<void> MessageWriter::begin(Connection& connection, Outstanding& outstanding, Sent& sent, BootMs now) {
  RUNG_REQUIRE(!writing());
  const Outgoing& outgoing = sent.outgoing;
  if (auto possible = check_names(outgoing); !possible) return possible;
  header_.clear();
  if (auto encoded = encode_content_header(outgoing.message, header_); !encoded)
    return permanent(encoded.error().message);
  if (header_.size() > connection.frame_max() - kFrameOverhead) {
    return permanent("its headers are " + std::to_string(header_.size()) +
                     " bytes, more than fit into a frame");
  }
  failpoint("publish.before_write");
  put_publish(connection.out(), outgoing, true);
  connection.frame(AMQP_FRAME_HEADER, kChannel, header_);
  tag_ = outstanding.add(std::move(sent));
  body_written_ = 0;
  continue_body(connection, outstanding, now);
  return {};
}

void MessageWriter::continue_body(Connection& connection, Outstanding& outstanding, BootMs now) {
  RUNG_REQUIRE(writing());
  Sent* sent = outstanding.at(tag_);
  if (sent == nullptr) {  // cannot happen: only complete messages are settled
    tag_ = 0;
    return;
  }
  const std::string_view body = sent->outgoing.message.body;
  const std::size_t most = connection.frame_max() - kFrameOverhead;
  while (body_written_ < body.size() && !full(connection)) {
    const std::string_view piece = body.substr(body_written_, most);
    connection.frame(AMQP_FRAME_BODY, kChannel, piece);
    body_written_ += piece.size();
  }
  if (body_written_ < body.size()) return;
  sent->end = connection.appended();
  tag_ = 0;
  finished_at_ = now;
}

// Uses the default exchange. No queue is named "", so the broker drops the message once it has checked our
// right.
void RightsCheck::send(Connection& connection) {
  const Outgoing check;
  std::string header;
  (void)encode_content_header(check.message, header);
  put_publish(connection.out(), check, false);
  connection.frame(AMQP_FRAME_HEADER, kChannel, header);
  pending_ = true;
}

Error RightsCheck::refused(const Closing& why) {
  if (why.code != AMQP_ACCESS_REFUSED) return {Error::Kind::transient, why.text};
  lost_ = true;
  return {Error::Kind::refused, "the broker refuses every publish: " + why.text};
}

}  // namespace rung::rabbit
