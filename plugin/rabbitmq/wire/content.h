// Assembles a message from its frames: a header, then body frames.
// Thread: one thread per object.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "plugin/rabbitmq/wire/codec.h"
#include "plugin/rabbitmq/wire/frame.h"

namespace rung::rabbit {

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
