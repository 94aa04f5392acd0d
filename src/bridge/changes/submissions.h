// Submissions of people and programs without the broker: new tasks and changes of tasks, from any thread.
// Batched into few transactions, like intake: many small calls at once cost as much as one large one. No call
// is answered before its commit. Thread: any for submit() and change(); the loop's for everything else, and
// the callbacks.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "src/bridge/base/sidecar.h"
#include "src/core/base/time.h"
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

  explicit Submissions(const Sidecar& sidecar);

  // All of a batch or none, except for row-specific answers (a duplicate, a body that is too large). The
  // error is transient if nothing could be written for kCallTimeout, or if the process ends; such a batch may
  // still be committed if it was on its way, as after any lost answer.
  void submit(std::vector<Submission> batch, SubmitDone done);
  void change(std::vector<Event> events, ChangeDone done);

  // Inserts the calls that wait for a lease or a free slot.
  void flush();
  // Accepts nothing more; waiting calls get an error.
  void drain();
  bool idle() const { return in_flight_ == 0; }

 private:
  struct Call {
    std::vector<Submission> batch;
    SubmitDone done;
    BootMs since;
    bool alone = false;  // the database has refused it together with others
  };
  struct Batch {
    std::vector<Call> calls;
    std::vector<NewTask> tasks;  // of all calls, in their order
  };

  void add(Call call);
  NewTask make_task(Submission& submission, int shard);
  void insert(const std::shared_ptr<Batch>& batch, int shard);
  void inserted(Batch& batch, const Result<std::vector<Inserted>>& result);
  void wait();
  // Nothing of it was written.
  void wait_again(Call call);
  void give_up_old();

  const Sidecar& sidecar_;
  std::deque<Call> waiting_;
  int in_flight_ = 0;
  bool draining_ = false;
  io::Timer expiry_timer_;
};

}  // namespace rung::bridge
