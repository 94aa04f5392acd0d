// Bulks: one action on many tasks. Thread, errors: store.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/machine/by_hand.h"
#include "src/core/machine/machine.h"
#include "src/core/task/task.h"
#include "src/store/attachments.h"
#include "src/store/system.h"
#include "src/store/tasks.h"

namespace rung {

class Store;

// One action on many tasks: those that matched when the bulk was created. Persisted as words. NOTE: append
// only.
enum class BulkAction : std::uint8_t { cancel = 1, fire, redrive, discard, succeed, fail };
// Reports a result on behalf of consumers. Without a state in the filter: of deliveries whose silence is held
// open.
inline bool is_finish(BulkAction action) {
  return action == BulkAction::succeed || action == BulkAction::fail;
}
// aborted: by a person; stopped: by itself, see Bulk::stopped_because.
enum class BulkState : std::uint8_t { running = 1, paused, aborted, done, stopped };
template <>
inline constexpr std::array<std::string_view, 6> kWords<BulkAction>{"cancel",  "fire",    "redrive",
                                                                    "discard", "succeed", "fail"};
template <>
inline constexpr std::array<std::string_view, 5> kWords<BulkState>{"running", "paused", "aborted", "done",
                                                                   "stopped"};

// The lowest rate above 0. It sets the longest interval between two steps: 100 s.
inline constexpr double kLeastBulkRate = 0.01;

// How careful a redrive is: src/bridge/changes/bulk.h does it. Nothing set: all are sent, whatever
// becomes of them.
struct Care {
  // So many are sent first; the others follow if all of these succeed. 0 = none. At most kMostCanary.
  std::int64_t canary = 0;
  // Of the canary: silence for so long is an answer, too. None: the queue's own silence is.
  std::optional<Ms> watch = {};
  bool ramp = false;  // from 1/s, doubling, up to the bulk's rate
  // Ends the bulk if more than this share of what it has sent lately has failed. In percent.
  std::optional<double> stop_above = {};

  bool any() const { return canary > 0 || ramp || stop_above; }
  bool operator==(const Care&) const = default;
};
inline constexpr std::int64_t kMostCanary = 1000;

// What a person has asked for.
struct BulkRequest {
  BulkAction action = BulkAction::cancel;
  std::string filter_text;     // which tasks, as JSON: for people
  std::string reason, who;     // reason: as the person gave it
  Target elsewhere;            // of a redrive
  bool even_reported = false;  // of a redrive or a failure
  double rate = 0;             // tasks a second; 0 = as fast as it goes
  Care care = {};              // of a redrive
};

struct NewBulk : BulkRequest {
  Filter filter;           // its limit, after and order are ignored
  bool paused = false;     // created paused, until set_bulk(): a person confirms first
  std::int64_t limit = 0;  // at most so many tasks, the oldest; 0 = all that match
};

struct Bulk : BulkRequest {
  std::int64_t id = 0;
  BulkState state = BulkState::running;
  std::int64_t total = 0, done = 0;       // done: processed, whatever the result
  std::int64_t applied = 0, refused = 0;  // the others needed no change
  EpochMs created_at;
  std::optional<EpochMs> finished_at;
  std::string runner;                            // the process that runs it; "" = none
  TaskId last = {};                              // the last task processed
  std::optional<std::int64_t> canary_done = {};  // `done` when its canary had succeeded
  std::string stopped_because = {};              // why it ended itself; "" = it has not
  // When a person last paused, resumed or aborted it, who, and why.
  std::optional<EpochMs> changed_at = {};
  std::string changed_by = {}, changed_because = {};
};

struct BulkControl {
  std::int64_t id = 0;
  BulkState state = BulkState::running;  // the one wanted
  std::optional<double> rate = {};       // of a resume: a new one
  std::string who = {}, reason = {};     // reason: as the person gave it; "" = none
  bool put_back = false;  // of an abort: api::control_bulk() parks what a redrive has made due and not sent
};
std::string queue_of(const Bulk& bulk);  // that its filter names; "" = it names none
// What is recorded of a bulk that a person has created or changed.
AuditRow audit_of_new(const Bulk& bulk);
AuditRow audit_of_change(const Bulk& bulk);
SystemEvent event_of_change(const Bulk& bulk);

// It has ended and may have changed tasks: one that was aborted before its first step has not.
bool has_ended(const Bulk& bulk);
// "redrive: 20 of 25 processed, 18 changed, 2 refused; aborted: its canary failed": for people.
std::string describe_end(const Bulk& bulk);

// What has become of a task since a bulk changed it.
struct SentTask {
  TaskId id;
  std::string queue;
  State state = State::scheduled;  // now
  bool held = false;               // its silence is held open
  std::optional<Silence> silence;  // its own; none = its queue's
  // Of the first attempt since.
  Outcome outcome = Outcome::pending;
  std::optional<EpochMs> published_at;
  std::string error;
};

bool has_failed(const SentTask& task);
// It has ended without being sent: a person has ended it, or an earlier attempt was reported late.
bool is_withdrawn(const SentTask& task);
struct SentCounts {  // without what was withdrawn
  std::int64_t sent = 0, succeeded = 0, failed = 0;
  std::int64_t open = 0;    // delivered, no outcome yet
  std::int64_t unsent = 0;  // not delivered yet
};
SentCounts count(const std::vector<SentTask>& sent);
// What is known of their queues.
AttachmentRecords attachments_of(Store& store, const std::vector<SentTask>& sent);
// When it was read, at the latest: as delivered where nobody has counted. None: not delivered, or not read.
std::optional<EpochMs> when_read(const SentTask& task, const AttachmentRecords& records);
// Why some have not been read: "queue orders has no consumer, ..."; "" = they have, as far as is known.
std::string unread_among(const std::vector<SentTask>& sent, const AttachmentRecords& records);

// Whether a careful redrive goes on.
struct BulkVerdict {
  enum class Go : std::uint8_t { on, passed, wait, stop };
  Go go = Go::on;        // passed: its canary has succeeded, the others follow
  std::string why = {};  // of stop: for people
};

// The tasks it freezes: those that match its filter; if that names no state, in the state that the action is
// for.
Filter of_bulk(const NewBulk& bulk);
// Why none of the states in its filter allows the action, and which do; "" if one does.
std::string refused_states(const NewBulk& bulk);
// The event it applies to one task.
Event event_of(const Bulk& bulk, TaskId id);

// The error of a step whose bulk `runner` does not own any more.
inline constexpr std::string_view kNotItsRunner =
    "the bulk is paused, has ended, or is run by another process";

// The progress of a bulk, written in the same apply() as its events, so that no task is processed twice.
struct BulkStep {
  std::int64_t bulk = 0;
  // REQUIRES: `runner` owns the bulk (take_bulk), and its Bulk::last is `from`; else nothing is written and
  // the error is permanent: kNotItsRunner.
  std::string runner;
  TaskId from = {};
  double rate = 0;          // at which this step runs; 0 = no limit
  bool keeps_sent = false;  // sent_by_bulk() will be asked for the tasks that it has changed
};

}  // namespace rung
