// One AMQP connection: login, frames in and out, heartbeats. Blocks only in open() and call(), which are
// bounded and end early when the waker says stop.
//
// rabbitmq-c encodes and decodes methods; frames and content are hand-written (codec.h says why). The class
// has more members than most: heartbeats depend on what went through both buffers, and everything lives as
// long as the socket. Thread: one thread per object.
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

#include "plugin/rabbitmq/wire/codec.h"
#include "plugin/rabbitmq/wire/wire.h"
#include "src/core/base/addresses.h"
#include "src/core/base/result.h"
#include "src/core/base/url.h"

namespace rung::rabbit {

// Timeout for connecting to one address, and for the declarations that follow.
inline constexpr auto kSetUpTimeout = std::chrono::seconds{10};

// The reason that the broker gives when it closes a channel or a connection.
struct Closing {
  int code = 0;              // 404, 406, 320 ...
  std::string text;          // "NOT_FOUND - no exchange 'x' in vhost '/'"
  std::uint32_t method = 0;  // our method that caused it; 0 = none
  bool connection = true;    // false: channel.close; the connection goes on
};

inline std::string_view view(amqp_bytes_t bytes) {
  return bytes.len == 0 ? std::string_view()
                        : std::string_view(static_cast<const char*>(bytes.bytes), bytes.len);
}
inline amqp_bytes_t bytes(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }
// An argument or property. REQUIRES: both outlive it.
inline amqp_table_entry_t text_entry(const char* name, std::string_view text) {
  amqp_table_entry_t entry{};
  entry.key = amqp_cstring_bytes(name);
  entry.value.kind = AMQP_FIELD_KIND_UTF8;
  entry.value.value.bytes = bytes(text);
  return entry;
}

inline constexpr std::uint16_t kChannel = 1;  // the only channel

class Connection {
 public:
  // Prepares a new connection for use. It limits its own time.
  using SetUp = std::function<Result<void>(Connection&)>;
  // Connects to the first address that accepts us and where `set_up` succeeds. `most`: login timeout for an
  // address that has no alternative.
  static Result<std::unique_ptr<Connection>> open(Addresses& addresses, const Access& access, Ms heartbeat,
                                                  const std::string& name, Waker& waker, Ms most,
                                                  const SetUp& set_up = {});
  // Connects to this address.
  static Result<std::unique_ptr<Connection>> open_at(const Address& address, const Access& access,
                                                     Ms heartbeat, const std::string& name, Waker& waker,
                                                     BootMs deadline);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // --- in ---
  // Reads what has arrived, at most some 100 KB. True: there may be more. Error also if a heartbeat is
  // overdue.
  Result<bool> fill();
  // The next complete frame of what was read; its payload is valid until the next fill(). False if there is
  // none. Heartbeats are swallowed.
  // Errors: a malformed frame, or one that is impossibly large.
  Result<bool> next(Frame& frame);
  // The method's fields, decoded by rabbitmq-c; valid until the next call. nullptr if they do not parse.
  template <typename T>
  const T* decode(const Frame& frame) {
    return static_cast<const T*>(decode(frame));
  }

  // --- out ---
  // Frames are appended to a buffer; flush() writes as much of it as the socket accepts.
  void method(std::uint16_t channel, amqp_method_number_t id, const void* fields);
  void frame(std::uint8_t type, std::uint16_t channel, std::string_view payload);
  // For callers that encode straight into the buffer: whole frames only.
  std::string& out() { return out_; }
  Result<void> flush();
  std::size_t unsent() const { return out_.size() - sent_; }
  // Bytes since the start: given to the socket, and appended. They tell how much of a message has been sent.
  std::uint64_t written() const { return written_; }
  std::uint64_t appended() const { return written_ + unsent(); }

  // --- time ---
  // Sends a heartbeat when one is due. Call it again by wake_at() at the latest.
  Result<void> tick();
  BootMs wake_at() const;
  // Sleeps until there is something to read, unsent data can be written, a wake-up comes, or `until`.
  void sleep(Waker& waker, BootMs until);

  // --- calls ---
  using Others = std::function<void(const Frame&)>;
  // Sends a method and waits for its answer; other frames go to `others`. If the broker closes the channel
  // instead, that is answered (close-ok) and closing() has the reason; Kind::refused if the broker refused
  // the method. `answer`: 0 = X-ok, which is always X + 1. Callers use Calls (calls.h).
  Result<const void*> call(amqp_method_number_t id, const void* fields, Waker& waker, BootMs deadline,
                           const Others& others, amqp_method_number_t answer = 0);
  // Sends connection.close and waits for the answer until `deadline`. By then the broker has processed
  // everything written before.
  void close(BootMs deadline);
  // Answers a received connection.close or channel.close, at once as far as the socket accepts it, and
  // returns its reason.
  Closing closed_by_peer(const Frame& frame);
  // Of the last call, or of the last frame given to closed_by_peer() since. Code 0: nothing was closed.
  const Closing& closing() const { return closing_; }
  // Whether the broker answered the last call by closing the channel: it refuses what was asked for.
  bool channel_closed() const { return closing_.code != 0 && !closing_.connection; }

  int fd() const { return wire_->fd(); }
  std::uint32_t frame_max() const { return frame_max_; }
  const Address& address() const { return address_; }
  int major_version() const { return major_version_; }     // of RabbitMQ; 0 = it does not say
  const std::string& cluster() const { return cluster_; }  // the name that the broker reports; "" = none

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
  int major_version_ = 0;
  std::uint32_t frame_max_ = 131072;
  Ms heartbeat_;  // 0 = none
  BootMs last_in_, last_out_;
  std::string in_;  // [taken_, filled_) is not yet parsed
  std::size_t taken_ = 0, filled_ = 0;
  std::string out_;  // [sent_, end) is not yet written
  std::size_t sent_ = 0;
  std::uint64_t written_ = 0;
  amqp_pool_t pool_{};
  Closing closing_;
};

}  // namespace rung::rabbit
