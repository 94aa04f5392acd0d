// What is known about one error queue, and when to look at it again: whether it exists, and whether the
// broker lets us consume it. Thread: one.
#pragma once

#include <chrono>
#include <string>

#include "src/core/base/time.h"

namespace rung::rabbit {

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
  // Its answer.
  void exists(BootMs now);
  void missing(BootMs now);
  // The broker refuses it, or does not answer for it.
  void refused(std::string reason, BootMs now);

  // The last try has failed.
  bool was_refused() const { return refusals_ > 0; }

  // Whether to consume it.
  bool wanted() const { return exists_; }
  // The broker lets us; and it has ended that, most probably because the queue was deleted.
  void consuming();
  void cancelled(BootMs now);
  bool consumed() const { return consumed_; }

  // The reason of the last refusal, until the queue is consumed; "" = none.
  const std::string& problem() const { return problem_; }

 private:
  void gone(BootMs next_look);

  bool exists_ = false, consumed_ = false;
  BootMs next_look_{0};
  int refusals_ = 0;  // in a row
  std::string problem_;
};

}  // namespace rung::rabbit
