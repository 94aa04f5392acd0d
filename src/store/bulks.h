// Bulks: one action on many tasks. Thread, errors: store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/machine/machine.h"
#include "src/core/task/task.h"
#include "src/store/queries.h"

namespace rung {

// One action on many tasks: those that matched when the bulk was created. Persisted as words. NOTE: append
// only.
enum class BulkAction : std::uint8_t { cancel = 1, fire, redrive, discard, succeed, fail };
// Reports a result on behalf of consumers. Without a state in the filter: of deliveries whose silence is held
// open.
inline bool is_finish(BulkAction action) {
  return action == BulkAction::succeed || action == BulkAction::fail;
}
enum class BulkState : std::uint8_t { running = 1, paused, aborted, done };
std::string_view to_word(BulkAction);
std::string_view to_word(BulkState);
std::optional<BulkAction> bulk_action_from(std::string_view word);
std::optional<BulkState> bulk_state_from(std::string_view word);

// The lowest rate above 0. It sets the longest interval between two steps: 100 s.
inline constexpr double kLeastBulkRate = 0.01;

struct NewBulk {
  BulkAction action = BulkAction::cancel;
  Filter filter;               // its limit, after and order are ignored
  std::string filter_text;     // the filter as the user wrote it: for people
  std::string reason;          // as the person gave it
  Target elsewhere;            // of a redrive
  bool even_reported = false;  // of a redrive or a failure
  double rate = 0;             // tasks a second; 0 = as fast as it goes
  std::string who;
  bool paused = false;     // created paused, until set_bulk(): a person confirms first
  std::int64_t limit = 0;  // at most so many tasks, the oldest; 0 = all that match
};

struct Bulk {
  std::int64_t id = 0;
  BulkAction action = BulkAction::cancel;
  BulkState state = BulkState::running;
  std::string filter_text, reason, who;
  Target elsewhere;
  bool even_reported = false;
  double rate = 0;
  std::int64_t total = 0, done = 0;       // done: processed, whatever the result
  std::int64_t applied = 0, refused = 0;  // the others needed no change
  EpochMs created_at;
  std::optional<EpochMs> finished_at;
  std::string runner;  // the process that runs it; "" = none
  TaskId last = {};    // the last task processed
};

// The tasks it freezes: those that match its filter; if that names no state, in the state that the action is
// for.
Filter of_bulk(const NewBulk& bulk);
// Why none of the states in its filter allows the action, and which do; "" if one does.
std::string refused_states(const NewBulk& bulk);
// The event it applies to one task.
Event event_of(const Bulk& bulk, TaskId id);

// The progress of a bulk, written in the same apply() as its events, so that no task is processed twice.
struct BulkStep {
  std::int64_t bulk = 0;
  // REQUIRES: `runner` owns the bulk (take_bulk), and its Bulk::last is `from`; else nothing is written and
  // the error is permanent.
  std::string runner;
  TaskId from = {};
};

// TaskStore::apply() performs the steps of a bulk.
class BulkStore {
 public:
  virtual ~BulkStore() = default;

  // Freezes the ids that match now. Ids of bulks are never reused.
  virtual Result<Bulk> create_bulk(const NewBulk& bulk) = 0;
  virtual Result<std::optional<Bulk>> bulk(std::int64_t id) = 0;
  // The newest first. `below`: only those with a smaller id.
  virtual Result<std::vector<Bulk>> bulks(int limit, std::optional<std::int64_t> below = std::nullopt) = 0;
  // running <-> paused, either -> aborted; nullopt if there is no such bulk; unchanged if it has ended.
  virtual Result<std::optional<Bulk>> set_bulk(std::int64_t id, BulkState state,
                                               std::optional<double> rate) = 0;
  // Takes the most overdue bulk that is running, whose next step is due by its rate, and that has no runner,
  // an expired one, or us. We own it until now + ttl, and after a step until a little after the next step is
  // due. `only`: consider only that bulk.
  virtual Result<std::optional<Bulk>> take_bulk(const std::string& runner, Ms ttl,
                                                std::optional<std::int64_t> only = std::nullopt) = 0;
  // The next tasks after step.from, by id. None: the bulk is complete, and is marked done.
  virtual Result<std::vector<TaskId>> bulk_next(const BulkStep& step, int limit) = 0;
};

}  // namespace rung
