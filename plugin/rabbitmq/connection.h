// One AMQP connection: login, frames in and out, heartbeats. Never blocks outside open() and call(), which
// are bounded and end early when the waker says stop.
//
// Methods are encoded and decoded by rabbitmq-c; frames and content by hand (codec.h says why).
// Thread: one thread an object.
#pragma once

#include <amqp.h>
#include <amqp_framing.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "plugin/rabbitmq/frame.h"
#include "plugin/rabbitmq/waker.h"
#include "plugin/rabbitmq/wire.h"
#include "src/core/addresses.h"
#include "src/core/result.h"
#include "src/core/url.h"

namespace rung::rabbit {

// The longest that connecting to one address may take; and the longest for the declarations after it.
inline constexpr auto kSetUpTimeout = std::chrono::seconds{10};

// What the broker says when it closes a channel or a connection.
struct Closing {
  int code = 0;              // 404, 406, 320 ...
  std::string text;          // "NOT_FOUND - no exchange 'x' in vhost '/'"
  std::uint32_t method = 0;  // of ours that it is about; 0 = none
};

inline std::string_view view(amqp_bytes_t bytes) {
  return bytes.len == 0 ? std::string_view()
                        : std::string_view(static_cast<const char*>(bytes.bytes), bytes.len);
}
inline amqp_bytes_t bytes(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }

inline int usual_port(bool tls) { return tls ? 5671 : 5672; }

inline constexpr std::uint16_t kChannel = 1;  // the only one

class Connection {
 public:
  // What a new connection needs before it serves. It bounds its own time.
  using SetUp = std::function<Result<void>(Connection&)>;
  // To the first of the addresses that takes us in, and where `set_up` succeeds. `most`: the time of one that
  // has no other beside it, for the login.
  static Result<std::unique_ptr<Connection>> open(Addresses& addresses, const Tls* tls, Ms heartbeat,
                                                  const std::string& name, Waker& waker, Ms most,
                                                  const SetUp& set_up = {});
  // To this one.
  static Result<std::unique_ptr<Connection>> open_at(const Address& address, const Tls* tls, Ms heartbeat,
                                                     const std::string& name, Waker& waker, BootMs deadline);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // --- in ---
  // Reads what has come, some 100 KB at most. True: there may be more. Also where a heartbeat is overdue:
  // error.
  Result<bool> fill();
  // The next complete frame of what was read, its payload valid until the next fill(); false where there is
  // none. Heartbeats are swallowed.
  // Errors: a frame that is none, or so large that it cannot be one.
  Result<bool> next(Frame& frame);
  // The method's fields, by rabbitmq-c; valid until the next call. nullptr where they do not parse.
  template <typename T>
  const T* decode(const Frame& frame) {
    return static_cast<const T*>(decode(frame));
  }

  // --- out ---
  // Frames are appended to a buffer that flush() writes as far as the socket takes it.
  void method(std::uint16_t channel, amqp_method_number_t id, const void* fields);
  void frame(std::uint8_t type, std::uint16_t channel, std::string_view payload);
  // For who encodes straight into the buffer: whole frames only.
  std::string& out() { return out_; }
  Result<void> flush();
  std::size_t unsent() const { return out_.size() - sent_; }
  // Bytes since the start, for telling what of a message has left: handed to the socket, and appended.
  std::uint64_t written() const { return written_; }
  std::uint64_t appended() const { return written_ + unsent(); }

  // --- time ---
  // Sends a heartbeat when one is due. When to come back at the latest is wake_at().
  Result<void> tick();
  BootMs wake_at() const;
  // Sleeps until there is something to read, or to write when something is unsent, or a wake-up, or `until`.
  void sleep(Waker& waker, BootMs until);

  // --- talk ---
  using Others = std::function<void(const Frame&)>;
  // Sends a method and waits for its answer; other frames go to `others`. When the broker closes the channel
  // instead, that is answered (close-ok) and closing() has its word: Kind::refused for what it refuses.
  Result<const void*> call(amqp_method_number_t id, const void* fields, amqp_method_number_t answer,
                           Waker& waker, BootMs deadline, const Others& others);
  Result<void> open_channel(Waker& waker, BootMs deadline, const Others& others);
  // connection.close, and waits for its answer until `deadline`: what was written before has been worked on
  // then.
  void close(BootMs deadline);
  // connection.close or channel.close has come: answers it and returns what it says.
  Closing closed_by_peer(const Frame& frame);
  const Closing& closing() const { return closing_; }

  int fd() const { return wire_->fd(); }
  std::uint32_t frame_max() const { return frame_max_; }
  const Address& address() const { return address_; }
  const std::string& cluster() const { return cluster_; }  // the name that the broker gives it; "" = none

 private:
  Connection(std::unique_ptr<Wire> wire, const Clock& clock, Address address, Ms heartbeat);
  Result<void> login(const Url& url, const std::string& name, Waker& waker, BootMs deadline);
  Result<void> tune(const void* fields);
  Result<Frame> await(Waker& waker, BootMs deadline);
  const void* decode(const Frame& frame);

  const std::unique_ptr<Wire> wire_;
  const Clock& clock_;
  const Address address_;
  std::string cluster_;
  std::uint32_t frame_max_ = 131072;
  Ms heartbeat_;  // 0 = none
  BootMs last_in_, last_out_;
  std::string in_;  // [taken_, filled_) is not parsed yet
  std::size_t taken_ = 0, filled_ = 0;
  std::string out_;  // [sent_, end) is not written yet
  std::size_t sent_ = 0;
  std::uint64_t written_ = 0;
  amqp_pool_t pool_{};
  Closing closing_;
};

}  // namespace rung::rabbit
