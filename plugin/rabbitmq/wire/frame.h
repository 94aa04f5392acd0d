// AMQP 0-9-1 frames, cut from the front of a byte stream.
// Thread: pure functions.
#pragma once

#include <amqp.h>  // before the next: that one is not self-contained
#include <amqp_framing.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/core/base/result.h"

namespace rung::rabbit {

inline constexpr std::size_t kFrameOverhead = 8;  // type, channel, size in front; end mark behind

struct Frame {
  std::uint8_t type = 0;  // AMQP_FRAME_METHOD ...
  std::uint16_t channel = 0;
  std::string_view payload;  // points into the stream that it was cut from

  std::uint32_t method() const;  // class << 16 | method; 0 if it is no method frame
};

// Cuts the frame at the front of `stream`. Returns its total size; 0 if it is incomplete. Errors: a malformed
// frame, or a payload over `most` bytes.
Result<std::size_t> cut_frame(std::string_view stream, std::size_t most, Frame& frame);

}  // namespace rung::rabbit
