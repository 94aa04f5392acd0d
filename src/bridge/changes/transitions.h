// Batches the events of tasks from every flow, one transaction per batch. While one batch is in the database
// the next one fills, so that batches grow with the load by themselves (group commit). A broker's confirm,
// which nobody waits for, waits some ms for others.
//
// A consumer's report that ends an attempt waits until the attempt's publish has its answer
// (kNotPublishedYet, kBeingPublished): here, without asking the database, if we publish it ourselves;
// otherwise by retrying. A report on a delivery of ours that the row does not know (kRowBehind, kNoSuchTask
// with a valid token) is also retried for some seconds: the row may have been read where the last commits are
// missing. Thread: the loop's.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "plugin/broker.h"
#include "src/bridge/base/linger.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/changes/left_unacked.h"
#include "src/core/machine/machine.h"

namespace rung::bridge {

class Transitions {
 public:
  using Done = std::function<void(const Result<Decision>&)>;
  // What to do with an event that the database rejects for good.
  enum class OnError {
    answer,  // `done` gets the error
    keep,    // it is logged and retried by a timer (LeftUnacked): nobody else would
  };

  struct Deps {
    StoreJobs& jobs;
    std::function<Fence()> fence;  // called when a batch leaves
    const RuleBookPtr& rules;      // replaced by a reload: they apply from the next batch on
    std::function<void()> after;   // runs once after each batch's callbacks: acks leave together
    // Whether we have claimed the task, and its publish has no recorded answer yet; published() is called
    // when it has.
    std::function<bool(TaskId)> publishing;
    LeftUnacked& left;
  };
  Transitions(io::Loop& loop, Deps deps);

  // Leaves within some ms, or at flush(): call that when a handler has added all it has. `session`: of the
  // event's delivery, if there is one.
  void add(Event event, Done done, const IntakeSession& session = {}, OnError on_error = OnError::answer);
  // Drops waiting events of older sessions of this intake: the broker redelivers them.
  void forget_before(const IntakeSession& session);
  void flush();
  // The publish of this task has its answer, recorded in the row.
  void published(TaskId id);
  // Events from the broker that wait for another instance's publish do not count: unacked, they come again.
  bool idle() const;

 private:
  struct Item {
    Event event;
    Done done;
    IntakeSession session;
    OnError on_error = OnError::answer;
    // Its batch failed for good: it goes alone, so that it does not fail others.
    bool alone = false;
    bool told = false;  // the failure to record it was logged
    BootMs since{0};    // when it first had to wait for a publish
    BootMs again_at{0};
    std::size_t looked = 0;  // how often the row was behind or missing
  };
  bool should_flush();
  void push(Item item);
  void leave(std::vector<Item> batch);
  void keep(Item item, const std::string& reason);
  void arrived(std::vector<Item>& batch, Result<std::vector<Decision>> result);
  void put(Item item);
  bool ask_again(Item& item, const Decision& decision);
  bool look_again(Item& item, const Decision& decision);
  void put_off(Item item, Ms pause);
  void ask_those_due();

  io::Loop& loop_;
  const Deps deps_;
  std::deque<Item> waiting_;
  std::unordered_map<TaskId, std::vector<Item>> held_;  // until published()
  std::vector<Item> later_;                             // to be retried at their time
  io::Timer again_;                                     // the first of later_
  Linger linger_;
  std::size_t pressing_ = 0;  // how many of waiting_ somebody waits for
  int in_flight_ = 0;
};

}  // namespace rung::bridge
