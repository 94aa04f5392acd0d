// The messages that wait to be sent, in their order. Suspects stand at the front: the broker closed the
// channel or the connection because of one of them, and its reason does not say which. Each goes alone, with
// nothing beside it on its way, so that the broker's next answer is about it. Thread: one thread an object.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "plugin/rabbitmq/outstanding.h"

namespace rung::rabbit {

class SendQueue {
 public:
  bool empty() const { return queue_.empty(); }

  void add(Outgoing outgoing) { queue_.emplace_back().outgoing = std::move(outgoing); }
  void add_last(Sent sent) { queue_.push_back(std::move(sent)); }
  // It was sent in vain, and is the next.
  void add_first(Sent sent) {
    sent.end = 0;
    queue_.push_front(std::move(sent));
  }
  // The same for several, in their order, which may have been delivered. One of them is to blame.
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
    Sent sent = std::move(queue_.front());
    queue_.pop_front();
    suspect_on_its_way_ = suspects_ > 0;
    if (suspects_ > 0) --suspects_;
    return sent;
  }
  // All; none is a suspect any more.
  std::deque<Sent> take_all() {
    suspects_ = 0;
    return std::exchange(queue_, {});
  }

  // What take_first() returned last has its answer, or lost its channel.
  void nothing_on_its_way() { suspect_on_its_way_ = false; }
  // The next message may only be sent when nothing is on its way.
  bool one_at_a_time() const { return suspects_ > 0 || suspect_on_its_way_; }

 private:
  std::deque<Sent> queue_;
  std::size_t suspects_ = 0;         // so many at the front
  bool suspect_on_its_way_ = false;  // what take_first() returned last is a suspect, and has no answer
};

}  // namespace rung::rabbit
