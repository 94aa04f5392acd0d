// Batches the events of tasks from every flow, one transaction per batch. While one batch is in the database
// the next one fills, so that batches grow with the load by themselves (group commit). A broker's confirm,
// which nobody waits for, waits some ms for others.
//
// A consumer's report that ends an attempt waits until the attempt's publish has its answer
// (kBeingPublished): here, without asking the database, if we publish it ourselves;
// otherwise by retrying. A report on a delivery of ours whose row is missing (kNoSuchTask with a valid token)
// is also retried for some seconds: it may have been looked for where the last commits are missing. Thread:
// the loop's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/bridge/base/sidecar.h"

namespace rung::bridge {

// Delays items that arrive one by one for some ms so that they form batches: at a thousand per second, a
// transaction for every two or three costs the database three times as much as one for every twenty. Thread:
// the loop's.
class Linger {
 public:
  // Calls `go` when the wait is over. `most`: how long it lasts; a quarter of it after the last item, so that
  // a single one, or as many as a small prefetch lets through, hardly wait.
  Linger(io::Loop& loop, Ms most, std::function<void()> go)
      : loop_(loop), most_(most), go_(std::move(go)), timer_(loop, [this] {
          over_ = true;
          go_();
        }) {}

  // Whether the waiting items should wait longer. The first call begins the wait.
  bool hold() {
    if (over_) return false;
    const BootMs now = loop_.clock().boot();
    if (!timer_.active()) until_ = now + most_;
    timer_.start(std::max(Ms{0}, std::min(most_ / 4, until_ - now)));
    return true;
  }
  // For an item that must not wait: hold() is false until end().
  void skip() { over_ = true; }
  // A batch has left: starts over.
  void end() {
    over_ = false;
    timer_.stop();
  }

 private:
  io::Loop& loop_;
  const Ms most_;
  const std::function<void()> go_;
  bool over_ = false;
  BootMs until_{0};
  io::Timer timer_;
};

// Deliveries that could be neither stored nor recorded, and publishes whose result could not be recorded. A
// timer retries each while its session is current, so that none is forgotten. The problem "unrecorded" is set
// meanwhile. Thread: the loop's.
class LeftUnacked {
 public:
  static constexpr Ms kEvery{5000};
  static constexpr std::size_t kMostAtOnce = 100;  // in one turn of the timer

  LeftUnacked(io::Loop& loop, Health& health);

  // Calls `again` once, a turn later; if that fails, `again` must call add() again. `session`: the
  // delivery's, {} if there is no delivery.
  void add(const IntakeSession& session, const std::string& reason, std::function<void()> again);
  // Drops deliveries of older sessions of this intake: the broker redelivers them.
  void forget_before(const IntakeSession& session);
  // Stops retrying: remaining deliveries stay with the broker, and rows stay as they are.
  void drain();
  std::size_t size() const { return waiting_.size(); }

 private:
  struct Item {
    IntakeSession session;
    std::function<void()> again;
  };
  void turn();

  Health& health_;
  std::deque<Item> waiting_;
  bool draining_ = false;
  io::Timer timer_;
};

class Transitions {
 public:
  using Done = std::function<void(const Result<Decision>&)>;
  // What to do with an event that the database rejects for good.
  enum class OnError {
    answer,  // `done` gets the error
    keep,    // it is logged and retried by a timer (LeftUnacked): nobody else would
  };

  explicit Transitions(const Sidecar& sidecar);

  // Leaves within some ms, or at flush(): call that when a handler has added all it has. `session`: of the
  // event's delivery, if there is one.
  void add(Event event, Done done, const IntakeSession& session = {}, OnError on_error = OnError::answer);
  // Drops waiting events of older sessions of this intake: the broker redelivers them.
  void forget_before(const IntakeSession& session);
  void flush();

  // What follows from a new row that is committed, and from a decision, which changed the row if it was
  // applied; those of its own events Transitions hears by itself. Adds the due time to the heap, withdraws a
  // held-back copy, counts, and logs what people must know.
  void inserted(const NewTask& fresh);
  void decided(const Decision& decision);

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
    bool told = false;       // the failure to record it was logged
    BootMs since{0};         // when it first had to wait for a publish
    std::size_t looked = 0;  // how often the row was missing
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
  void schedule(const Task& task);

  const Sidecar& sidecar_;
  std::deque<Item> waiting_;
  std::unordered_map<TaskId, std::vector<Item>> held_;  // until published()
  std::multimap<BootMs, Item> later_;                   // to be retried at their time
  io::Timer again_;                                     // the first of them
  Linger linger_;
  std::size_t pressing_ = 0;  // how many of waiting_ somebody waits for
  int in_flight_ = 0;
};

// --- store calls on many rows of which one may fail for good, because of its data: the batch is split, so
// that only the bad row fails. Thread: a store thread's; the functions block.

// Store::messages(). A message whose reading fails for good has the reason in `broken`.
std::vector<StoredMessage> read_messages(Store& store, std::span<const TaskId> ids);

// Makes `stored` unusable, with the reason, if it is not the message of its task: nothing else may be sent.
void prove(StoredMessage& stored, const Task& task);

// Store::claim(), in as few transactions as possible. A claim that fails for good is refused, with the
// reason; a message whose reading does, as in read_messages(). Messages are proven.
Claimed claim_tasks(Store& store, std::span<const Event> claims, const Fence& fence, const Decider& decide,
                    std::size_t most_bytes);

// Store::apply() for a step of a bulk, in as few transactions as possible, each of which records its
// progress. An event that fails for good is refused, with the reason. REQUIRES: ascending ids.
std::vector<Decision> apply_step(Store& store, std::span<const Event> events, const Fence& fence,
                                 const Decider& decide, BulkStep step);

}  // namespace rung::bridge
