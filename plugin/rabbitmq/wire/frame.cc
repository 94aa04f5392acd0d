#include "plugin/rabbitmq/wire/frame.h"

namespace rung::rabbit {
namespace {

constexpr std::size_t kHeaderSize = 7;

std::uint32_t read32(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return std::uint32_t{static_cast<unsigned char>(text[at + i])}; };
  return byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
}

}  // namespace

std::uint32_t Frame::method() const {
  return type == AMQP_FRAME_METHOD && payload.size() >= 4 ? read32(payload, 0) : 0;
}

Result<std::size_t> cut_frame(std::string_view stream, std::size_t most, Frame& frame) {
  if (stream.starts_with("AMQP")) return permanent("the broker does not speak AMQP 0-9-1");
  if (stream.size() < kHeaderSize) return std::size_t{0};
  const std::size_t size = read32(stream, 3);
  if (size > most) return permanent("not AMQP, or a frame of " + std::to_string(size) + " bytes");
  if (stream.size() < size + kFrameOverhead) return std::size_t{0};
  if (static_cast<unsigned char>(stream[kHeaderSize + size]) != AMQP_FRAME_END)
    return permanent("a frame without its end mark");
  frame.type = static_cast<std::uint8_t>(stream[0]);
  frame.channel = static_cast<std::uint16_t>(read32(stream, 0) >> 8);
  frame.payload = stream.substr(kHeaderSize, size);
  return size + kFrameOverhead;
}

}  // namespace rung::rabbit
