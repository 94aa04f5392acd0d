// What was sent and has no answer yet: delivery tags to messages.
//
// Confirms come in any order, one by one or `multiple`. Returns carry no tag, so they are matched by what
// they say:
//   1. Within a channel the broker works in order, so returns come in the order of their publishes: the
//   search goes
//      on where the last one was found.
//   2. The first whose exchange, routing key, properties, headers and body are the same is the one. A message
//   that
//      carries retry-id and retry-attempt is thereby told from every other. Two without any difference at all
//      can be mixed up only when the queue went or came between them: then one of two equal messages is in
//      the queue and the other not, whichever token we say it of, so nobody can tell, nor be hurt.
//   3. Where the broker wrote headers differently than we did (none does so today), the first with the same
//      exchange, routing key, body size, message-id, retry-id and retry-attempt.
// A return comes before its ack: the ack settles it as returned.
//
// Thread: one thread an object.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "plugin/broker.h"

namespace rung::rabbit {

struct Sent {
  Outgoing outgoing;
  std::uint64_t end = 0;  // Connection::appended() after its last byte; 0 while it is still being written
  int strikes = 0;        // how often the broker hung up with this message alone on its way
  bool maybe_delivered = false;  // it was sent once before, on a channel that is gone
  bool settled = false;
  bool returned = false;
  std::string reason;
};

class Outstanding {
 public:
  // The tag it has: counts up from 1 on each channel.
  std::uint64_t add(Sent sent);
  Sent* at(std::uint64_t tag);  // nullptr where it is settled or unknown

  // Settles and appends the results.
  void confirm(std::uint64_t tag, bool multiple, bool ack, std::vector<PublishResult>& results);
  // False where no message fits.
  bool returned(const std::string& exchange, const std::string& routing_key, const Message& message,
                std::string reason);

  // Messages for this exchange that were returned have no result: take_returned() has them.
  void keep_returned(std::string exchange) { keep_returned_ = std::move(exchange); }
  std::vector<Outgoing> take_returned() { return std::exchange(kept_, {}); }

  // All that are not settled, in the order sent; empties it. Tags begin at 1 again.
  std::vector<Sent> take_all();

  std::size_t size() const { return open_; }
  bool empty() const { return open_ == 0; }

 private:
  void settle(Sent& sent, bool ack, std::vector<PublishResult>& results);
  void drop_settled();

  std::string keep_returned_;  // "" = none
  std::vector<Outgoing> kept_;
  std::deque<Sent> sent_;
  std::uint64_t base_ = 1;         // the tag of sent_[0]
  std::size_t open_ = 0;           // those not settled
  std::uint64_t search_from_ = 1;  // tag: returns before it have been matched
};

}  // namespace rung::rabbit
