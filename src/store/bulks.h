// One action on many tasks. Thread, errors: store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/machine.h"
#include "src/core/result.h"
#include "src/core/task.h"
#include "src/store/queries.h"

namespace rung {

// One action on many tasks, over the ids that matched when it was made. Persisted as words. NOTE: only
// append.
enum class BulkAction : std::uint8_t { cancel = 1, fire, redrive, discard };
enum class BulkState : std::uint8_t { running = 1, paused, aborted, done };
std::string_view to_word(BulkAction);
std::string_view to_word(BulkState);
std::optional<BulkAction> bulk_action_from(std::string_view word);
std::optional<BulkState> bulk_state_from(std::string_view word);

// The lowest rate but 0, and so the longest between two steps: 100 s.
inline constexpr double kLeastBulkRate = 0.01;

struct NewBulk {
  BulkAction action = BulkAction::cancel;
  Filter filter;            // limit and below are not looked at
  std::string filter_text;  // the filter as it was asked for: for people
  std::string reason;       // of a cancel or a discard
  Target elsewhere;         // of a redrive
  double rate = 0;          // tasks a second; 0 = as fast as it goes
  std::string who;
  bool paused = false;  // it waits for set_bulk(): somebody is asked first
};

struct Bulk {
  std::int64_t id = 0;
  BulkAction action = BulkAction::cancel;
  BulkState state = BulkState::running;
  std::string filter_text, reason, who;
  Target elsewhere;
  double rate = 0;
  std::int64_t total = 0, done = 0;       // done: looked at, whatever came of it
  std::int64_t applied = 0, refused = 0;  // the others were as they should be already
  EpochMs created_at;
  std::optional<EpochMs> finished_at;
  std::string runner;  // who is at it; "" = nobody
  TaskId last = {};    // up to here it is done
};

// Which tasks it freezes: those of its filter, and where that names no state, those that the action is for.
Filter of_bulk(const NewBulk& bulk);
// What it does to one.
Event event_of(const Bulk& bulk, TaskId id);

// How far a bulk has come by the events of one apply(): written with them, so that none is done twice.
struct BulkStep {
  std::int64_t bulk = 0;
  // REQUIRES: `runner` has the bulk (take_bulk), and it stands at `from` (Bulk::last); else nothing is
  // written and the error is permanent.
  std::string runner;
  TaskId from = {};
};

// The steps of a bulk are made by TaskStore::apply().
class BulkStore {
 public:
  virtual ~BulkStore() = default;

  // Freezes the ids that match now. The id of a bulk is never used again.
  virtual Result<Bulk> create_bulk(const NewBulk& bulk) = 0;
  virtual Result<std::optional<Bulk>> bulk(std::int64_t id) = 0;
  virtual Result<std::vector<Bulk>> bulks(int limit) = 0;  // the newest first
  // running <-> paused, either -> aborted; nullopt where there is no such bulk; unchanged where it has ended.
  virtual Result<std::optional<Bulk>> set_bulk(std::int64_t id, BulkState state,
                                               std::optional<double> rate) = 0;
  // Of those that are running, whose next step is due by their rate, and that have no runner, or one whose
  // time is up, or us: the one that is due longest. It is ours until now + ttl, and after a step until a
  // little after the next is due. `only`: that one and no other.
  virtual Result<std::optional<Bulk>> take_bulk(const std::string& runner, Ms ttl,
                                                std::optional<std::int64_t> only = std::nullopt) = 0;
  // The next after step.from, by id. None: it is through, and now says so.
  virtual Result<std::vector<TaskId>> bulk_next(const BulkStep& step, int limit) = 0;
};

}  // namespace rung
