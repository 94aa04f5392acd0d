// What is known about one error queue, and when to look at it again: whether it exists, whether the broker
// lets us consume it, and whether it rests (Broker::rest). Thread: one.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "src/core/base/time.h"

namespace rung::rabbit {

// Whether something new has come into an error queue in which only returned copies were left.
class RestWatch {
 public:
  static constexpr Ms kLongest{std::chrono::minutes{10}};
  // `copies`: how many go back to the queue. `unsettled`: how often in a row the queue had another number of
  // messages after that: something came meanwhile, or another instance holds copies, too.
  RestWatch(BootMs now, std::size_t copies, int unsettled)
      : since_(now), copies_(copies), unsettled_(unsettled) {}
  // `messages`: those ready in the queue. True: consume it again.
  bool over(std::size_t messages, BootMs now);
  // The queue has had exactly these copies.
  bool settled() const { return settled_; }

 private:
  BootMs since_;
  std::size_t copies_;
  int unsettled_;
  bool settled_ = false;
  // While another instance holds messages, the count drops and comes back.
  std::deque<std::size_t> last_;
};

class ErrorQueueState {
 public:
  // After a refusal the queue is left alone for so long; doubled with each refusal in a row. A try that fails
  // closes the channel of all error queues, and what was unacked comes again; but from the
  // second try on not where a permission is missing, for which the watch asks first.
  static constexpr Ms kAfterRefusal{std::chrono::seconds{5}};
  static constexpr Ms kLongestAfterRefusal{std::chrono::minutes{10}};
  // While something changes. Nothing wakes the watch earlier.
  static constexpr Ms kShortestPause{std::chrono::seconds{1}};

  // Whether the broker is to be asked about the queue now.
  bool look_due(BootMs now) const { return now >= next_look_; }
  // It is asked now. A queue whose answer ends the connection is not the first one asked on the next.
  void looking(BootMs now);
  // Its answer. `messages`: those ready in the queue.
  void exists(std::size_t messages, BootMs now);
  void missing(BootMs now);
  // The broker refuses it, or does not answer for it.
  void refused(std::string reason, BootMs now);

  // The last try has failed.
  bool was_refused() const { return refusals_ > 0; }

  // Whether to consume it.
  bool wanted() const { return exists_ && !rest_; }
  // The broker lets us; and it has ended that, most probably because the queue was deleted.
  void consuming();
  void cancelled(BootMs now);
  bool consumed() const { return consumed_; }  // also while it rests
  void rest(std::size_t copies, BootMs now);

  // The reason of the last refusal, until the queue is consumed; "" = none.
  const std::string& problem() const { return problem_; }

 private:
  void gone(BootMs next_look);

  bool exists_ = false, consumed_ = false;
  BootMs next_look_{0};
  std::optional<RestWatch> rest_;
  int unsettled_ = 0;  // rests that ended so, in a row
  int refusals_ = 0;   // in a row
  std::string problem_;
};

}  // namespace rung::rabbit
