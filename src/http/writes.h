// New tasks and changes, handed to the bridge and waited for: its leases, fences and heap are used, and many
// calls at once share a transaction. Thread: any.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "src/bridge/submissions.h"

namespace rung::http {

// Bridge::submit and Bridge::change.
struct Bridging {
  std::function<void(std::vector<Submission>, bridge::Submissions::SubmitDone)> submit;
  std::function<void(std::vector<Event>, bridge::Submissions::ChangeDone)> change;
};

class Writes {
 public:
  // `reply_timeout`: how long an answer is waited for.
  Writes(Bridging bridging, Ms reply_timeout)
      : bridging_(std::move(bridging)), reply_timeout_(reply_timeout) {}

  // Transient error: it is not known whether it happened (no answer in time), or it did not (too much waits
  // already, the instance ends); the text says which.
  Result<std::vector<bridge::Submitted>> submit(std::vector<Submission> batch);
  Result<std::vector<Decision>> change(std::vector<Event> events);

 private:
  const Bridging bridging_;
  const Ms reply_timeout_;
  // Of calls that are not answered yet, also those nobody waits for any more. Shared with the callbacks.
  std::shared_ptr<std::atomic<std::int64_t>> waiting_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace rung::http
