// Hands new tasks and changes to the bridge and waits for the answer. That uses the bridge's leases, fences
// and heap, and concurrent calls share a transaction. Thread: any.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "src/bridge/changes/inserts.h"

namespace rung::http {

// Bridge::submit and Bridge::change.
struct Bridging {
  std::function<void(std::vector<Submission>, bridge::Inserts::SubmitDone)> submit;
  std::function<void(std::vector<Event>, bridge::Inserts::ChangeDone)> change;
};

class Writes {
 public:
  // `reply_timeout`: how long to wait for an answer.
  Writes(Bridging bridging, Ms reply_timeout)
      : bridging_(std::move(bridging)), reply_timeout_(reply_timeout) {}

  // Transient error: either the outcome is unknown (no answer in time), or nothing happened (too much is
  // waiting already, the instance is stopping); the text says which.
  Result<std::vector<bridge::Submitted>> submit(std::vector<Submission> batch);
  // `more`: bytes of the messages in the events.
  Result<std::vector<Decision>> change(std::vector<Event> events, std::int64_t more = 0);

 private:
  const Bridging bridging_;
  const Ms reply_timeout_;
  // Bytes of unanswered calls, including those whose caller no longer waits. Shared with the callbacks.
  std::shared_ptr<std::atomic<std::int64_t>> waiting_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace rung::http
