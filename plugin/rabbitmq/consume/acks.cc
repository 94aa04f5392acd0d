#include "plugin/rabbitmq/consume/acks.h"

#include "plugin/rabbitmq/wire/codec.h"
#include "plugin/rabbitmq/wire/connection.h"

namespace rung::rabbit {

namespace {

constexpr std::uint8_t kMultiple = 1, kRequeue = 2;  // bits of both methods; an ack has only the first

// basic.ack or basic.nack: both have the same layout.
void put_settle(std::string& out, std::uint32_t method, std::uint64_t tag, std::uint8_t bits) {
  constexpr std::uint32_t kPayload = 4 + 8 + 1;
  put8(out, AMQP_FRAME_METHOD);
  put16(out, kChannel);
  put32(out, kPayload);
  put32(out, method);
  put64(out, tag);
  put8(out, bits);
  put8(out, AMQP_FRAME_END);
}

}  // namespace

void AckWriter::ack(const std::vector<std::uint64_t>& tags, std::string& out) {
  frames_.clear();
  window_.ack(tags, frames_);
  for (const AckFrame& frame : frames_)
    put_settle(out, AMQP_BASIC_ACK_METHOD, frame.tag, frame.multiple ? kMultiple : std::uint8_t{0});
}

void AckWriter::requeue(const std::vector<std::uint64_t>& tags, std::string& out) {
  for (const std::uint64_t tag : tags) {
    window_.settled(tag);
    put_settle(out, AMQP_BASIC_NACK_METHOD, tag, kRequeue);
  }
}

void AckWriter::requeue_all(std::string& out) {
  put_settle(out, AMQP_BASIC_NACK_METHOD, 0, kMultiple | kRequeue);  // tag 0: all
  window_.settle_all();
}

}  // namespace rung::rabbit
