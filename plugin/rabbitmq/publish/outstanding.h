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

}  // namespace rung::rabbit
