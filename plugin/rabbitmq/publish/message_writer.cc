#include "plugin/rabbitmq/publish/message_writer.h"

#include <string_view>
#include <utility>

#include "plugin/rabbitmq/wire/codec.h"
#include "src/core/base/failpoint.h"
#include "src/core/base/result.h"

namespace rung::rabbit {
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
