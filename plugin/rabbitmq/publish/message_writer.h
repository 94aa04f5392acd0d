// The parts of a publisher: what waits and what has no answer yet, the writer with its fence, the check of
// our rights.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/wire/connection.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung::rabbit {

// Messages on their way to the broker: those that wait to be sent (SendQueue), and those that were sent and
// have no answer yet, by delivery tag (Outstanding).
//
// Confirms come in any order, one by one or `multiple`. Returns carry no tag, so they are matched by content:
//   1. Within a channel the broker works in order, so returns come in the order of their publishes: the
//      search continues where the last match was found.
//   2. The first message with the same exchange, routing key, body, message-id, retry-id and retry-attempt
//      matches. The last two tell a message of Rung's from every other. The other headers are not compared:
//      the broker takes BCC off. Two that are equal in all this can be mixed up only if the queue was deleted
//      or created between them. That does no harm: one of two equal messages is in the queue and the other is
//      not, whichever token we report.
// A return comes before its ack; the ack settles the message as returned.
//
// Thread: one thread per object.

struct Sent {
  Outgoing outgoing;
  std::uint64_t end = 0;  // Connection::appended() after its last byte; 0 while it is still being written
  int strikes = 0;        // how often the broker hung up while only this message was in flight
  bool maybe_delivered = false;  // it was sent before, on a channel that has ended
  bool returned = false;
  std::string reason;
};

class Outstanding {
 public:
  // Returns its tag, which counts up on each channel, from 2: tag 1 is the RightsCheck's.
  std::uint64_t add(Sent sent);
  Sent* at(std::uint64_t tag);  // nullptr if it is settled or unknown

  // Settles messages and appends their results.
  void confirm(std::uint64_t tag, bool multiple, bool ack, std::vector<PublishResult>& results);
  // False if no message matches.
  bool returned(const std::string& exchange, const std::string& routing_key, const Message& message,
                std::string reason);

  // Messages that the return exchange returned get no result; take_returned() yields them.
  void keep_returned() { keep_returned_ = true; }
  std::vector<Outgoing> take_returned() { return std::exchange(kept_, {}); }

  // Returns all unsettled messages in the order sent, and clears the object, as for a new channel.
  std::vector<Sent> take_all();

  std::size_t size() const { return sent_.size(); }
  bool empty() const { return sent_.empty(); }

 private:
  void settle(Sent& sent, bool ack, std::vector<PublishResult>& results);

  bool keep_returned_ = false;
  std::vector<Outgoing> kept_;
  std::map<std::uint64_t, Sent> sent_;  // unsettled, by tag
  std::uint64_t last_ = 1;              // the tag of the last one
  std::uint64_t search_from_ = 0;       // tag: returns before it have been matched
};

// Messages waiting to be sent, in order. Suspects are at the front: the broker closed the channel or the
// connection because of one of them, and its reason does not say which. Each is sent with nothing else in
// flight, so that the broker's next answer is about it. Thread: one thread per object.
class SendQueue {
 public:
  bool empty() const { return queue_.empty(); }

  void add(Outgoing outgoing) { queue_.emplace_back().outgoing = std::move(outgoing); }
  void add_last(Sent sent) { queue_.push_back(std::move(sent)); }
  // Its send failed; it is sent next.
  void add_first(Sent sent) {
    sent.end = 0;
    queue_.push_front(std::move(sent));
  }
  // The same for several, in order, which may have been delivered. One of them caused the failure.
  void add_suspects(std::vector<Sent> sent) {
    suspects_ += sent.size();
    while (!sent.empty()) {
      sent.back().maybe_delivered = true;
      add_first(std::move(sent.back()));
      sent.pop_back();
    }
  }

  // REQUIRES: not empty.
  Sent take_first() {
    RUNG_REQUIRE(!queue_.empty());
    Sent sent = std::move(queue_.front());
    queue_.pop_front();
    suspect_on_its_way_ = suspects_ > 0;
    if (suspects_ > 0) --suspects_;
    return sent;
  }
  // Removes all messages; none is a suspect any more.
  std::deque<Sent> take_all() {
    suspects_ = 0;
    return std::exchange(queue_, {});
  }

  // The message last returned by take_first() has its answer, or lost its channel.
  void nothing_on_its_way() { suspect_on_its_way_ = false; }
  // The next message may be sent only when nothing is in flight.
  bool one_at_a_time() const { return suspects_ > 0 || suspect_on_its_way_; }

 private:
  std::deque<Sent> queue_;
  std::size_t suspects_ = 0;         // number of suspects at the front
  bool suspect_on_its_way_ = false;  // the message last returned by take_first() is an unanswered suspect
};

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
