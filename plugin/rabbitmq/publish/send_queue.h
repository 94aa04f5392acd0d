// Messages waiting to be sent, in order. Suspects are at the front: the broker closed the channel or the
// connection because of one of them, and its reason does not say which. Each is sent with nothing else in
// flight, so that the broker's next answer is about it. Thread: one thread per object.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "plugin/rabbitmq/publish/outstanding.h"
#include "src/core/base/require.h"

namespace rung::rabbit {

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
