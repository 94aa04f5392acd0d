// Inserts new tasks, one transaction per batch: those of deliveries, which wait for a shard of ours as long
// as their session is current, and those that people and programs submit without the broker, which wait for
// some seconds. An answer is given, and a delivery acked, only after the commit. Thread: the loop's, but for
// submit() and change().
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "src/bridge/base/sidecar.h"
#include "src/bridge/flight/transitions.h"

namespace rung::bridge {

// The outcome of one submission: its row (for a duplicate only the id), and whether it is new.
struct Submitted {
  Inserted answer;
  Task task;
};

class Inserts {
 public:
  using SubmitDone = std::function<void(Result<std::vector<Submitted>>)>;
  using ChangeDone = std::function<void(Result<std::vector<Decision>>)>;

  // Tasks that are written in one transaction. Inserts sets their ids, shard and node.
  struct Item {
    // Called once, with an answer for each task (inserted, duplicate or too_large), or the error of all: the
    // database refuses them, or nothing could be written in time, or the process ends. Not called for a
    // delivery that is forgotten, or whose connection is gone.
    using Done = std::function<void(const Item& item, const Result<std::vector<Inserted>>& answers)>;
    std::vector<NewTask> tasks;
    Done done;
    DeliveryTag tag = {};       // of the delivery; {}: submitted
    bool from_backlog = false;  // of an error queue: goes after fresh messages
    bool alone = false;         // the database has refused it together with others
    BootMs since = {};          // set by add()

    bool is_delivery() const { return !(tag.session == IntakeSession{}); }
  };

  explicit Inserts(const Sidecar& sidecar);

  // Leaves with flush(): call that when a handler has added all it has.
  void add(Item item);
  // Inserts what waits for a lease or a free slot.
  void flush();
  // Drops waiting deliveries of older sessions of this intake: the broker redelivers them.
  void forget_before(const IntakeSession& session);
  // Accepts nothing more: deliveries stay unacked, and go to another instance, or to us after a restart.
  void drain();
  bool idle() const { return in_flight_ == 0; }

  // By hand. Thread: any; `done` is called on the loop. All of a batch or none, except for row-specific
  // answers (a duplicate, a body that is too large). The error is transient if nothing could be written for
  // some seconds, if the database has not answered since the start, or if the process ends; such a batch may
  // still be committed if it was on its way, as after any lost answer.
  void submit(std::vector<Submission> batch, SubmitDone done);
  void change(std::vector<Event> events, ChangeDone done);

 private:
  using Batch = std::vector<Item>;  // unchanged once a store's thread may read it
  // One for each task; none for a delivery that was skipped because its connection is gone.
  using Answers = std::vector<std::optional<Inserted>>;

  std::deque<Item>& line() { return fresh_.empty() ? backlog_ : fresh_; }
  bool should_flush();
  void insert(Batch items, int shard, bool for_others);
  Answers insert_standing(Store& store, const Batch& batch, const Fence& fence) const;
  void inserted(const Batch& batch, const Result<Answers>& result);
  void answered(const Item& item, const std::vector<Inserted>& answers);
  void give_up_old();

  const Sidecar& sidecar_;
  // Those from error queues come last: a backlog there must not delay fresh dead letters. It waits in the
  // broker as long as more comes in fresh than the database takes.
  std::deque<Item> fresh_, backlog_;
  Linger linger_;
  std::mt19937_64 dice_;
  int in_flight_ = 0;
  bool draining_ = false;
  io::Timer expiry_timer_;  // of submitted tasks
};

}  // namespace rung::bridge
