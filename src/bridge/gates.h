// Which queues may be published to: pauses by hand, holds by a consumer's retry-after, windows and breakers.
// Read from the database twice a second, except for the windows, which are in the config. While the database
// cannot be read, what was read last applies; an end at a time takes effect by the database's clock. Before
// the first read nothing is known, and so it is after our leases were lost (the process may have been
// suspended), until the next read: publish nothing meanwhile.
//
// Queues that the config does not name are named by messages. Of those, kMostUnlisted have a state; the gates
// of others, except windows and pauses, are not kept, until states that are no longer in use are deleted from
// the database (after a day). Thread: the loop's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/bridge/store_jobs.h"
#include "src/core/closed_times.h"
#include "src/core/db_clock.h"
#include "src/core/policy.h"
#include "src/io/loop.h"
#include "src/store/gates.h"

namespace rung::bridge {

class Gates {
 public:
  using Names = std::set<std::string, std::less<>>;
  enum class By { pause, window, retry_after, breaker };
  static constexpr std::size_t kMostUnlisted = 1000;

  // Why a queue gets nothing; of several reasons the first of By.
  struct Closed {
    By by = By::pause;
    std::optional<EpochMs> until;  // none: not known
    bool operator==(const Closed&) const = default;
  };

  // `changed`: known(), closed() or state() may have changed. A reload replaces `rules`.
  Gates(io::Loop& loop, StoreJobs& jobs, DbClock& clock, const RuleBookPtr& rules,
        std::function<void()> changed);

  void start();
  void stop();
  // Our leases were lost: what we know may be old.
  void invalidate();
  // This queue exists. Needed for queues that the config does not name, if a pattern or the defaults give
  // them a window.
  void see(const std::string& queue);
  // An instance, maybe this one, has changed it to this.
  void arrived(const GateState& state);

  bool known() const { return known_; }
  using ClosedQueues = std::map<std::string, Closed, std::less<>>;
  const ClosedQueues& all_closed() const { return closed_; }
  Names closed() const;  // queues that get nothing
  // The state in the view retry_queues.
  std::string_view word_of(std::string_view queue, const Closed& closed) const;
  // nullptr: it gets messages.
  const Closed* why_closed(std::string_view queue) const;
  // Whether the state of this queue's gates is kept; see above.
  bool keeps(std::string_view queue) const;
  // nullptr: as a queue is by default.
  const GateState* state(std::string_view queue) const;
  const std::map<std::string, GateState, std::less<>>& states() const { return states_; }
  // How long a task of the queue that was due at `due` has waited since because of the queue's gates. For a
  // queue with a rate or a limit, all of its lateness.
  Ms waited(std::string_view queue, EpochMs due) const;
  // The gate was closed at some time since `due`.
  bool was_closed(std::string_view queue, EpochMs due) const;

 private:
  struct Look {
    std::vector<Pause> pauses;
    std::vector<GateState> states;
  };

  bool is_listed(std::string_view queue) const { return rules_->queues().contains(queue); }
  void count_unlisted();
  void forget_times();
  void tick();
  void read();
  void read_done(const Look& look, bool fresh);
  void check_ends();
  bool update_closed();
  void close_by_state(const std::string& queue, const GateState& state, EpochMs now, ClosedQueues& closed);
  void close_by_window(const std::string& queue, EpochMs now, ClosedQueues& closed,
                       std::optional<EpochMs>& next);
  void log_changes(const ClosedQueues& closed) const;
  bool is_in_force(const Pause& pause) const;
  Ms closed_since(std::string_view queue, EpochMs due) const;

  StoreJobs& jobs_;
  DbClock& clock_;
  const RuleBookPtr& rules_;
  const std::function<void()> changed_;
  std::map<std::string, Pause, std::less<>> pauses_;       // as read last
  std::map<std::string, GateState, std::less<>> states_;   // as read last, or changed since
  std::map<std::string, ClosedTimes, std::less<>> times_;  // without windows
  ClosedQueues closed_;
  Names seen_;                 // not in the config
  std::size_t unlisted_ = 0;   // of states_
  bool told_of_many_ = false;  // that there are too many
  bool known_ = false;
  bool reading_ = false;
  int generation_ = 0;  // a read that began before the latest says nothing about now
  io::Timer tick_;
  io::Timer end_;  // of what ends next
};

}  // namespace rung::bridge
