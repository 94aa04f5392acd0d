// Messages on their way to the broker: those that wait to be sent (SendQueue), and those that were sent and
// have no answer yet, by delivery tag (Outstanding).
//
// Confirms come in any order, one by one or `multiple`. Returns carry no tag, so they are matched by content:
//   1. Within a channel the broker works in order, so returns come in the order of their publishes: the
//      search continues where the last match was found.
//   2. The first message with the same exchange, routing key, properties, headers and body matches. retry-id
//      and retry-attempt tell a message that carries them from every other. Two identical messages can be
//      mixed up only if the queue was deleted or created between them. That does no harm: one of two equal
//      messages is in the queue and the other is not, whichever token we report.
//   3. If the broker encoded headers differently than we did (none does so today), the first with the same
//      exchange, routing key, body size, message-id, retry-id and retry-attempt matches.
// A return comes before its ack; the ack settles the message as returned.
//
// Memory is bounded by what has no answer: the latest messages are in a deque, in which a settled message
// keeps its slot until those before it are settled too. Once settled slots outnumber the open ones, the open
// ones at the front move into a map, and the slots go. A message moves at most once.
//
// Thread: one thread per object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

struct Sent {
  Outgoing outgoing;
  std::uint64_t end = 0;  // Connection::appended() after its last byte; 0 while it is still being written
  int strikes = 0;        // how often the broker hung up while only this message was in flight
  bool maybe_delivered = false;  // it was sent before, on a channel that has ended
  bool settled = false;
  bool returned = false;
  std::string reason;
};

class Outstanding {
 public:
  // Returns its tag, which counts up from 1 on each channel.
  std::uint64_t add(Sent sent);
  Sent* at(std::uint64_t tag);  // nullptr if it is settled or unknown

  // Settles messages and appends their results.
  void confirm(std::uint64_t tag, bool multiple, bool ack, std::vector<PublishResult>& results);
  // False if no message matches.
  bool returned(const std::string& exchange, const std::string& routing_key, const Message& message,
                std::string reason);

  // Returned messages for this exchange get no result; take_returned() yields them.
  void keep_returned(std::string exchange) { keep_returned_ = std::move(exchange); }
  std::vector<Outgoing> take_returned() { return std::exchange(kept_, {}); }

  // Returns all unsettled messages in the order sent, and clears the object. Tags begin at 1 again.
  std::vector<Sent> take_all();

  std::size_t size() const { return open_; }
  // Entries in memory, settled ones included: at most 2 * size() + kMostSettled.
  std::size_t slots() const { return old_.size() + sent_.size(); }
  static constexpr std::size_t kMostSettled = 512;
  bool empty() const { return open_ == 0; }

 private:
  void settle(Sent& sent, bool ack, std::vector<PublishResult>& results);
  void drop_settled();
  void pop_front();

  std::string keep_returned_;  // "" = none
  std::vector<Outgoing> kept_;
  std::map<std::uint64_t, Sent> old_;  // unsettled, by tag; all before base_
  std::deque<Sent> sent_;
  std::size_t settled_ = 0;        // number of settled messages in sent_
  std::uint64_t base_ = 1;         // the tag of sent_[0]
  std::size_t open_ = 0;           // number of unsettled messages
  std::uint64_t search_from_ = 1;  // tag: returns before it have been matched
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

}  // namespace rung::rabbit
