// Tasks that are due, of queues with a rate, or a rate for each value of a header. They wait here for a send
// time (src/core/gates/send_times.h), which they get from the database: one transaction for all queues that
// need some. At its send time a task is claimed as any other. Within a value the oldest goes first; values
// take turns. A send time whose task cannot be sent any more goes to the next one, or is lost.
//
// It has more members than most classes here: each answer of the database changes all of it in one step (who
// waits, what happens when, who may ask next). Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/bridge/base/queue_names.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/flight/flights.h"
#include "src/bridge/flight/targets.h"
#include "src/bridge/gates/gates.h"
#include "src/bridge/leases/shards.h"
#include "src/core/gates/send_times.h"
#include "src/core/rules/policy.h"
#include "src/io/loop.h"

namespace rung::bridge {

class Throttle {
 public:
  // Tasks that are kept in memory, of one queue and of all, and values of one queue. The sweep finds the
  // others when there is room.
  static constexpr std::size_t kMostKept = 200'000, kMostInAll = 250'000, kMostValues = 50'000;

  struct Deps {
    StoreJobs& jobs;
    DbClock& clock;
    Shards& shards;
    QueueNames& names;
    const Gates& gates;
    const RuleBookPtr& rules;  // replaced by a reload
    Flights& flights;
    std::function<void(const std::vector<io::DueItem>&)> release;  // they may be claimed now
    std::function<std::size_t(std::uint32_t queue)> room;  // how many tasks of the queue could be sent now
    std::size_t most_in_all = kMostInAll;
  };
  Throttle(io::Loop& loop, Deps deps);

  // Whether tasks of this queue need send times.
  bool holds(std::uint32_t queue) const;
  // Of each queue, whatever the others keep: their backlog must not stop it.
  static constexpr std::size_t kFewKept = 100;
  // Whether no more of its tasks are kept.
  bool full(std::uint32_t queue) const;
  // REQUIRES: it is at Stage::throttled.
  void add(const io::DueItem& item);
  // A released task of this value is not to be sent: its send time is free.
  void not_sent(std::uint32_t queue, const std::string& value);
  // Gates or rules may have changed.
  void changed();
  // Call each second.
  void tick();
  std::optional<io::DueItem> take_oldest(std::uint32_t queue);
  void clear();

  void each_queue(const std::function<void(std::uint32_t)>& tell) const;  // with tasks here
  std::size_t waiting() const { return waiting_; }
  std::size_t waiting(std::uint32_t queue) const;
  // Queues with tasks that have been waiting for send times for a second or longer.
  std::vector<std::string> limited() const;
  // Tasks whose header had no value, and those of which the digest is the value.
  struct ValueCounts {
    std::int64_t missing = 0, digests = 0;
  };
  const ValueCounts& values() const { return value_counts_; }

 private:
  struct Value {
    Oldest waiting;                // without a send time
    std::size_t to_send = 0;       // with one: in agenda_
    bool listed = false;           // in Queue::turn, in agenda_ to be listed, or being asked for
    int refused = 0;               // how often in a row it got none
    std::optional<EpochMs> spare;  // a send time whose task was not sent
  };
  struct Queue {
    bool has(const std::optional<std::string>& value) const { return !value || values.contains(*value); }

    std::string name;
    std::map<std::string, Value, std::less<>> values;  // by rate_value()
    std::deque<std::string> turn;                      // values that need send times
    std::vector<io::DueItem> unknown;                  // their values have not been read yet
    std::vector<io::DueItem> looked_up;                // they are being read
    std::string header;                                // the one whose values these are
    std::size_t waiting = 0;                           // all of its tasks here
    BootMs not_before{0};                              // it got no answer
    bool wakes = false;                                // in agenda_
    bool limited = false;                              // see limited()
  };
  // What happens at a time. No item: the value, or the queue if there is none, asks again.
  struct Entry {
    std::uint32_t queue = 0;
    std::optional<std::string> value;
    std::optional<io::DueItem> item;
    EpochMs send_at;
  };
  struct Asked {
    std::uint32_t queue = 0;
    SendRequest request;
    std::vector<std::vector<io::DueItem>> items;  // by value of the request
    std::string header;
  };

  struct Room {  // in one request
    std::size_t values, tasks;
  };

  const GateRules& rules(std::uint32_t queue) const;
  double rate(std::uint32_t queue) const;
  std::size_t room_for(std::uint32_t queue) const;
  void soon();
  void work();
  void arm();
  void due();
  bool send(Queue& queue, const Entry& entry, bool takes, std::vector<io::DueItem>& out);
  bool use(Queue& queue, const std::string& value, Value& of, EpochMs send_at, std::vector<io::DueItem>& out);
  bool release(Queue& queue, const std::string& value, const io::DueItem& item,
               std::vector<io::DueItem>& out);
  bool is_gone(const io::DueItem& item);
  void put(std::uint32_t number, Queue& queue, const std::string& value, const io::DueItem& item);
  void list(std::uint32_t number, Queue& queue, const std::string& value, Value& of);
  bool may_ask(std::uint32_t number, Queue& queue, BootMs now);
  void wake(std::uint32_t number, Queue& queue, Ms pause);
  void look_up(std::uint32_t number, Queue& queue);
  void found(std::uint32_t number, Queue& queue, const io::DueItem& item, const std::string& value);
  static void forget_values(Queue& queue);
  void ask();
  Asked request(std::uint32_t number, Queue& queue, Room& room);
  void answered(const Result<std::vector<SendTimes>>& times);
  void answered(Queue& queue, const Asked& asked, const SendTimes& times);
  void release_all(Queue& queue);
  void forget();
  void check_agenda();

  const Deps deps_;
  io::Loop& loop_;
  std::map<std::uint32_t, Queue> queues_;  // those that had tasks lately
  std::multimap<EpochMs, Entry> agenda_;
  std::set<std::uint32_t> ready_;  // queues that may ask now
  std::uint32_t next_ready_ = 0;   // whose turn it is
  std::vector<Asked> asked_;       // the database has not answered yet
  std::size_t waiting_ = 0;
  BootMs not_before_{0};                // of the next request
  std::int64_t skew_ = 0;               // of the database's clock, when agenda_ was last checked
  const RuleBook* asked_by_ = nullptr;  // the rules then
  std::size_t schedules_ = 0;           // asked for since the unused ones were last deleted
  BootMs forgotten_at_{0};
  bool forgetting_ = false;
  std::set<std::uint32_t> told_;  // queues of which a header without a value was logged
  ValueCounts value_counts_;
  io::Timer again_;
  bool posted_ = false;
};

}  // namespace rung::bridge
