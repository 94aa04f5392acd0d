// Gathers what happens to tasks, from every flow, into batches: one transaction each. While one batch is with
// the database the next one gathers, so that batches grow with the load by themselves (group commit). A
// broker's confirm, which nobody waits for, waits some ms for others.
//
// A word that ends an attempt waits until the attempt's publish has its answer (kNotPublishedYet,
// kBeingPublished): here, without asking the database, where we publish it ourselves; else by asking again.
// A word on a delivery of ours that the row knows nothing of (kRowBehind, kNoSuchTask with a good token) is
// asked again for some seconds, too: the row may have been read where the last commits are not yet. Thread:
// the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <vector>

#include "src/bridge/left_unacked.h"
#include "src/bridge/linger.h"
#include "src/bridge/store_jobs.h"
#include "src/core/decider.h"
#include "src/core/machine.h"

namespace rung::bridge {

class Transitions {
 public:
  using Done = std::function<void(const Result<Decision>&)>;
  // What an event comes to that the database does not take for good.
  enum class OnError {
    answer,  // `done` gets the error
    keep,    // it is logged and tried again by a timer (LeftUnacked): nobody else would
  };

  // `fence` is asked when a batch leaves. `rules` are replaced by a reload: they hold from the next batch on.
  // `after` runs once after each batch's callbacks: acks leave together. `publishing`: whether we have
  // claimed the task, and its publish has no recorded answer yet; published() is called when it has.
  Transitions(io::Loop& loop, StoreJobs& jobs, std::function<Fence()> fence, const RuleBookPtr& rules,
              std::function<void()> after, std::function<bool(TaskId)> publishing, LeftUnacked& left);

  // Call flush() when a handler has added all it has. `connection`: of the delivery that it is about, if it
  // is about one.
  void add(Event event, Done done, std::uint32_t connection = 0, OnError on_error = OnError::answer);
  // Lets go of what waits from older connections of the broker's: it comes again.
  void forget_before(std::uint32_t connection);
  void flush();
  // The publish of this task has its answer, and the row says so.
  void published(TaskId id);
  // What waits for another's publish and came from the broker does not count: unacked, it comes again.
  bool idle() const;

 private:
  struct Item {
    Event event;
    Done done;
    std::uint32_t connection = 0;
    OnError on_error = OnError::answer;
    // The batch it was in failed for good: it goes by itself, so as not to take others down.
    bool alone = false;
    bool told = false;  // it was logged that it could not be recorded
    BootMs since{0};    // when it was first told to wait for a publish
    BootMs again_at{0};
    std::size_t looked = 0;  // so often the row was behind, or missing
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
  StoreJobs& jobs_;
  const std::function<Fence()> fence_;
  const RuleBookPtr& rules_;
  const std::function<void()> after_;
  const std::function<bool(TaskId)> publishing_;
  LeftUnacked& left_;
  std::deque<Item> waiting_;
  std::unordered_map<TaskId, std::vector<Item>> held_;  // until published()
  std::vector<Item> later_;                             // asked again at their time
  io::Timer again_;                                     // the first of later_
  Linger linger_;
  std::size_t pressing_ = 0;  // of waiting_: those that somebody waits for
  int in_flight_ = 0;
};

}  // namespace rung::bridge
