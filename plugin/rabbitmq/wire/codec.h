// AMQP 0-9-1: frames, cut from the front of a byte stream, and messages: the content header (properties and
// headers) in both directions.
//
// Hand-written instead of rabbitmq-c's amqp_table_t: one pass, no intermediate structures. Its decoder
// recurses as deep as the message nests (a header of 128 KB can nest 26,000 levels), so a message could crash
// the process.
//
// Field types as in RabbitMQ 3.10's parser (rabbit_binary_parser.erl), each preserved in both directions:
//   t bool        s int16     l int64    D Decimal       A Array
//   b int8        u uint16    L uint64   T Timestamp     F Table
//   B uint8       I int32     f float    S std::string   V null (monostate)
//                 i uint32    d double   x Bytes
// 'L' stays uint64; RabbitMQ turns it into 'l' when it dead-letters. Names of queues, exchanges and headers,
// and routing keys, are short strings: 255 bytes.
//
// Values that RabbitMQ would not accept back, and what we send instead:
//   float or double NaN, infinity   it has no such number and would close the connection: longstr "NaN",
//                                   "Infinity", "-Infinity". None can come from it either.
//   nested deeper than kMaxDepth    inbound: bytes 'x' that hold the encoded table or array.
//                                   Outbound: refused.
// Thread: pure functions; Content: one thread per object.
#pragma once

#include <amqp.h>  // before the next: that one is not self-contained
#include <amqp_framing.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "src/core/base/result.h"
#include "src/core/message/message.h"

namespace rung::rabbit {

inline constexpr int kMaxDepth = 64;
inline constexpr std::size_t kShortMost = 255;  // bytes of a name, and of every text property

// Appends the payload of a content header frame. Permanent errors say what cannot be encoded, and leave `out`
// unchanged.
Result<void> encode_content_header(const Message& message, std::string& out);

// Fills everything except the body. False if the payload is truncated or has unknown types; keeps what it had
// read until then.
bool decode_content_header(std::string_view payload, Message& message, std::uint64_t& body_size);

// Big-endian writers, also used for frames.
template <std::integral T>
void put_number(std::string& out, T v) {
  for (std::size_t i = sizeof v; i-- > 0;)
    out.push_back(static_cast<char>(static_cast<std::uint64_t>(v) >> (8 * i)));
}
inline void put8(std::string& out, std::uint8_t v) { put_number(out, v); }
inline void put16(std::string& out, std::uint16_t v) { put_number(out, v); }
inline void put32(std::string& out, std::uint32_t v) { put_number(out, v); }
inline void put64(std::string& out, std::uint64_t v) { put_number(out, v); }
// REQUIRES: text.size() <= kShortMost
void put_short(std::string& out, std::string_view text);

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

// Assembles a message from its frames: a header, then body frames.
class Content {
 public:
  // Called after a method that carries a message.
  void begin() {
    message_ = {};
    body_.clear();
    left_ = 0;
    state_ = State::header;
  }
  // Takes a header or body frame. True: the message is complete, call take(). Frames that belong to no
  // message are ignored.
  bool add(const Frame& frame) {
    if (frame.type == AMQP_FRAME_HEADER && state_ == State::header) {
      // A header that does not parse cannot pass a broker that parses it too. We keep what was read, so that
      // the message is not lost.
      decode_content_header(frame.payload, message_, left_);
      header_bytes_ = frame.payload.size();
      constexpr std::uint64_t kReserveMost = 64ULL << 20;
      body_.reserve(std::min(left_, kReserveMost));
      state_ = State::body;
    } else if (frame.type == AMQP_FRAME_BODY && state_ == State::body) {
      body_.append(frame.payload);
      left_ -= std::min<std::uint64_t>(left_, frame.payload.size());
    }
    if (state_ != State::body || left_ > 0) return false;
    state_ = State::none;
    return true;
  }
  // Of the message that is complete, before take(): its header, which has the properties, and its body.
  std::size_t bytes() const { return header_bytes_ + body_.size(); }
  Message take() {
    message_.body = std::exchange(body_, {});
    return std::exchange(message_, {});
  }

 private:
  enum class State { none, header, body };
  State state_ = State::none;
  Message message_;  // its body comes with take()
  std::string body_;
  std::size_t header_bytes_ = 0;
  std::uint64_t left_ = 0;  // bytes of body still to come
};

}  // namespace rung::rabbit
