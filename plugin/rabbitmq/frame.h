// Frames as AMQP 0-9-1 writes them, cut off the front of a stream of bytes.
// Thread: pure functions.
#pragma once

#include <amqp.h>  // before the next: it does not stand by itself
#include <amqp_framing.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/core/result.h"

namespace rung::rabbit {

inline constexpr std::size_t kFrameOverhead = 8;  // type, channel, size before; end mark behind

struct Frame {
  std::uint8_t type = 0;  // AMQP_FRAME_METHOD ...
  std::uint16_t channel = 0;
  std::string_view payload;  // of the stream that it was cut from

  std::uint32_t method() const;  // class << 16 | method; 0 for what is no method frame
};

// The frame at the front of `stream`. Its whole size; 0 where it is not all there yet. Errors: what is no
// frame, or one whose payload is over `most` bytes.
Result<std::size_t> cut_frame(std::string_view stream, std::size_t most, Frame& frame);

}  // namespace rung::rabbit
