// Submissions of people and programs without the broker: new tasks and changes of tasks, from any thread.
// No call is answered before its commit. Thread: any for submit() and change(); the loop's for everything
// else, and the callbacks.
#pragma once

#include <functional>
#include <vector>

#include "src/bridge/base/sidecar.h"
#include "src/core/base/result.h"
#include "src/core/machine/by_hand.h"
#include "src/core/machine/machine.h"

namespace rung::bridge {

// The outcome of one submission: its row (for a duplicate only the id), and whether it is new.
struct Submitted {
  Inserted answer;
  Task task;
};

class Submissions {
 public:
  using SubmitDone = std::function<void(Result<std::vector<Submitted>>)>;
  using ChangeDone = std::function<void(Result<std::vector<Decision>>)>;

  explicit Submissions(const Sidecar& sidecar) : sidecar_(sidecar) {}

  // All of a batch or none, except for row-specific answers (a duplicate, a body that is too large). The
  // error is transient if nothing could be written for some seconds, or if the process ends; such a batch may
  // still be committed if it was on its way, as after any lost answer.
  void submit(std::vector<Submission> batch, SubmitDone done);
  void change(std::vector<Event> events, ChangeDone done);
  // Changes nothing more.
  void drain() { draining_ = true; }

 private:
  const Sidecar& sidecar_;
  bool draining_ = false;
};

}  // namespace rung::bridge
