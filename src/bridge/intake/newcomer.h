// An incoming message that has no row yet, and the task that it becomes: a failure starts at the ladder's
// first level, a delay waits for its time. And the queue in which they wait for a shard that this instance
// holds. Thread: the loop's.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "plugin/broker.h"
#include "src/core/base/ids.h"
#include "src/core/base/result.h"
#include "src/core/machine/headers.h"
#include "src/core/machine/machine.h"

namespace rung::bridge {

inline constexpr std::size_t kShortString = 255;  // bytes, of name columns

// A message that carries the headers of one of our deliveries, and is not the message in that task's row, or
// the row is gone: a task of its own, which goes on where the other one stands.
struct Continuation {
  TaskId parent;
  int level = 1;  // that it waits for first
  std::optional<EpochMs> first_failed_at = {};
  std::string ladder = {};  // pinned; "" = its queue's
  int max_attempts = 0;     // that are left; 0 = no such limit
  std::string remark = {};  // to its error
};
// `failed`: the attempt whose headers it carries.
Continuation continue_after(const Task& parent, const Failure& failed);
Continuation continue_lost_row(const Failure& failed);

struct Newcomer {
  std::shared_ptr<Delivery> delivery;
  std::variant<Failure, DelayRequest> said;
  std::string park_reason;  // not empty: park it at once
  bool alone = false;
  bool without_body = false;  // its body is in <prefix>.parked
  bool proven = false;        // it is the failure of a delivery of ours
  std::optional<Continuation> continues = {};
  BootUs arrived{};  // set by Intake

  // "" if it goes to an exchange, or nowhere.
  const std::string& queue() const;
};

// Parked at once if a header names a target that the rules don't allow.
Newcomer failed_newcomer(std::shared_ptr<Delivery> delivery, Failure failure, const RuleBook& rules,
                         std::string park_reason = {});
Newcomer delayed_newcomer(std::shared_ptr<Delivery> delivery, const DelayRoutes& routes,
                          const RuleBook& rules);

struct Maker {
  TaskId id;
  int shard = 0;
  int node = 0;
  const RuleBook& rules;
  EpochMs now;          // arrival time, by DbClock::latest(): a lag of our clock reading never cuts a delay
                        // short
  double random = 0.0;  // [0, 1), for jitter
};
NewTask make_task(const Newcomer& newcomer, const Maker& maker);

// Messages that wait to be inserted. Those from error queues come last: a backlog there must not delay fresh
// dead letters. It waits in the broker as long as more comes in fresh than the database takes.
// Thread: the loop's.
class NewcomerQueue {
 public:
  void push(Newcomer item) {
    auto& line = item.delivery->inlet == Inlet::error ? from_error_queues_ : fresh_;
    line.push_back(std::move(item));
  }
  bool empty() const { return fresh_.empty() && from_error_queues_.empty(); }
  std::size_t size() const { return fresh_.size() + from_error_queues_.size(); }
  // REQUIRES, of these two: not empty().
  const Newcomer& front() const {
    RUNG_REQUIRE(!empty());
    return (fresh_.empty() ? from_error_queues_ : fresh_).front();
  }
  Newcomer pop() {
    RUNG_REQUIRE(!empty());
    auto& line = fresh_.empty() ? from_error_queues_ : fresh_;
    Newcomer item = std::move(line.front());
    line.pop_front();
    return item;
  }
  std::size_t bytes() const {  // of bodies
    std::size_t all = 0;
    for (const auto* line : {&fresh_, &from_error_queues_}) {
      for (const Newcomer& item : *line) all += item.delivery->message.body.size();
    }
    return all;
  }
  void forget_before(const IntakeSession& session) {
    for (auto* line : {&fresh_, &from_error_queues_})
      std::erase_if(*line, [&](const Newcomer& item) { return item.delivery->tag.session.before(session); });
  }
  void clear() {
    fresh_.clear();
    from_error_queues_.clear();
  }

 private:
  std::deque<Newcomer> fresh_, from_error_queues_;
};

}  // namespace rung::bridge
