// Writes messages into the connection's buffer piece by piece, and enforces the fence.
//
// A message is encoded only as fast as the socket accepts it, so that little data lies between the fence and
// the wire.
//
// The fence: before every write of message bytes, the deadline from allow_until() is compared with the boot
// clock. Once it has passed, waiting messages are `fenced`. If the buffer holds unsent bytes of a message,
// the connection is dropped instead of finishing it: a truncated message is never delivered, so it is
// `fenced`.
//
// Thread: allow_until from any; the rest from the publisher's own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "plugin/broker.h"
#include "plugin/rabbitmq/publish/outstanding.h"
#include "plugin/rabbitmq/wire/connection.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung::rabbit {

class MessageWriter {
 public:
  // --- the fence ---
  void allow_until(BootMs deadline) { allow_until_.store(deadline.ms, std::memory_order_release); }
  BootMs allowed_until() const { return {allow_until_.load(std::memory_order_acquire)}; }
  bool fence_passed(BootMs now) const { return now >= allowed_until(); }

  // --- the message being written ---
  bool writing() const { return tag_ != 0; }
  // The buffer holds enough for one write.
  static bool full(const Connection& connection) { return connection.unsent() >= kWriteAhead; }
  // Moves the message into `outstanding` and writes its beginning. Permanent errors: it cannot be sent at
  // all, and why; nothing was written, and `sent` is unchanged. REQUIRES: !writing()
  Result<void> begin(Connection& connection, Outstanding& outstanding, Sent& sent, BootMs now);
  // REQUIRES: writing(), on the same connection.
  void continue_body(Connection& connection, Outstanding& outstanding, BootMs now);
  // The connection or its channel has ended.
  void abandon() { tag_ = 0; }
  // When the last message was completely in the buffer.
  BootMs finished_at() const { return finished_at_; }

 private:
  // How far we encode ahead of the socket: enough to need few system calls, little enough for the fence.
  static constexpr std::size_t kWriteAhead = 128 * 1024;

  std::atomic<std::int64_t> allow_until_{0};  // BootMs

  // Used by the publisher's thread only.
  std::uint64_t tag_ = 0;         // of the message whose body is being written; 0 = none
  std::size_t body_written_ = 0;  // bytes of its body
  BootMs finished_at_;
  std::string header_;  // scratch
};

// Checks whether our user may publish at all. On each new channel the first publish is an empty message that
// no queue takes; nothing else is sent until the broker has confirmed it. If the broker refuses it (403), our
// user has lost its rights: the connection counts as down, and waiting messages are for the next connection.
//
// During an alarm the answer comes only after the alarm, so no caller waits for it. Thread: one thread per
// object.
class RightsCheck {
 public:
  // REQUIRES: nothing else was published on the channel.
  void send(Connection& connection);
  bool pending() const { return pending_; }
  void passed() { pending_ = false; }
  // The broker closed the channel while the check was pending. Returns why the connection has ended.
  Error refused(const Closing& why);
  // The connection has ended. Returns whether the check was refused on it.
  bool connection_over() {
    pending_ = false;
    return std::exchange(lost_, false);
  }

 private:
  bool pending_ = false;
  bool lost_ = false;
};

}  // namespace rung::rabbit
