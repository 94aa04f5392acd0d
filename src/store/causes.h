// Causes of failures: failures of a queue that have the same fingerprint (src/core/causes/fingerprint.h) are
// one cause. A task belongs to the cause of its last failure. rung_causes has a row for each, whose counts
// agree with the tasks: every transaction that changes a task says how its causes' counts change.
//
// Thread, errors: store.h; CauseBook: any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/causes/fingerprint.h"
#include "src/core/machine/machine.h"
#include "src/core/task/task.h"

namespace rung {

// What people have said about a cause, and whether it has ended. Persisted as words. NOTE: append only.
// ignored: until it gets worse (kWorse times the rate at which it was ignored); it is `fresh` again then.
// resolved: a person said so, or its last task under way or parked ended. regressed: it has failed since.
enum class CauseState : std::uint8_t { fresh = 1, known, working, ignored, resolved, regressed };
template <>
inline constexpr std::array<std::string_view, 6> kWords<CauseState>{"new",     "known",    "working",
                                                                    "ignored", "resolved", "regressed"};

inline constexpr std::int64_t kWorse = 10;
// The hour of `last_hour` begins with a bucket of five minutes. So many of them are the hour.
inline constexpr std::size_t kCauseBuckets = 12;
inline constexpr std::size_t kCauseSampleBytes = 1000;
// A cause that has had no task and no failure for kCauseKept is no longer read into the books of processes.
// It is deleted later, when no book has it any more: a process whose book still had it would count a failure
// of it without storing what it is.
inline constexpr Ms kCauseKept{std::chrono::hours{24 * 30}};
inline constexpr Ms kCauseForgotten = kCauseKept + std::chrono::hours{1};

// One row of retry_causes.
struct CauseRow {
  std::string id, queue, error_type;
  std::string sample;  // one of its error texts, at most kCauseSampleBytes
  EpochMs first_seen, last_seen;
  // Tasks whose last failure it is: under way (scheduled, publishing, awaiting), parked, succeeded since.
  std::int64_t scheduled = 0, parked = 0, succeeded = 0;
  std::int64_t total = 0;      // tasks that it has ever been the cause of; those deleted since, too
  std::int64_t last_hour = 0;  // failures: a task that fails twice counts twice
  // The same by bucket, the oldest first: kCauseBuckets of them, or none if they were not read.
  std::vector<std::int64_t> trend = {};
  CauseState state = CauseState::fresh;
  std::string owner, note, link;
  std::optional<EpochMs> worse_at = {};  // it was ignored, and got worse
};

// How many tasks of a cause are in which state, or how that has changed.
struct CauseCounts {
  std::int64_t scheduled = 0, parked = 0, succeeded = 0, total = 0, failures = 0;
  bool operator==(const CauseCounts&) const = default;
};

// A failure, as far as causes need it.
struct CauseOf {
  std::string_view queue;  // in which it failed
  std::string_view error_type, error;
};

// The causes that this process knows. What strangers write into errors has a bound: the failures of a queue
// beyond its first kMostOfQueue causes share one cause, those beyond kMost causes of all queues another.
class CauseBook {
 public:
  static constexpr std::size_t kMostOfQueue = 500, kMost = 10'000;

  // `rules`: the config's `causes`.
  explicit CauseBook(CauseRulesPtr rules = nullptr) : rules_(std::move(rules)) {}

  struct Found {
    std::string id;
    // Set for a cause that is not stored as far as this process knows.
    std::optional<CauseRow> fresh = {};
  };
  // `text`: cause_text() of its error.
  Found find(const CauseOf& failure, const std::string& text) const;
  const CauseRules* rules() const { return rules_.get(); }
  // They are stored.
  void stored(const std::vector<CauseRow>& fresh);
  // All that is stored now. Causes that are not in it are forgotten.
  void load(const std::vector<std::pair<std::string, std::string>>& ids_and_queues);

 private:
  void add(const std::string& id, const std::string& queue);

  const CauseRulesPtr rules_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::string> queues_;  // by cause
  std::unordered_map<std::string, std::size_t> counts_;  // by queue
};

// What one transaction changes in the counts of causes. Thread: values.
class CauseChanges {
 public:
  // `book` outlives this.
  explicit CauseChanges(const CauseBook& book) : book_(&book) {}
  const CauseBook& book() const { return *book_; }

  // cause_text() of an error, found once. Before the transaction: each takes some microseconds, which would
  // pass under the locks of all rows of the batch.
  const std::string& text_of(std::string_view error);
  // A try of the transaction begins: nothing has changed.
  void begin();

  // The failure of a new task; nullopt: it has not failed.
  static std::optional<CauseOf> failure_of(const NewTask& task);

  // A new task's row is inserted. Returns its cause; "" if it has not failed.
  std::string inserted(const NewTask& task);
  // `decision` is applied to `before`: sets the cause of its task.
  void decided(const Task& before, Decision& decision);

  bool empty() const { return counts_.empty(); }
  const std::map<std::string, CauseCounts>& counts() const { return counts_; }  // by cause
  std::vector<CauseRow> fresh() const;  // causes that may have to be stored first, by id

 private:
  std::string find(const CauseOf& failure);
  void count(const std::string& cause, State state, std::int64_t tasks);

  const CauseBook* book_;
  std::map<std::string, std::string, std::less<>> texts_;  // by error
  std::map<std::string, CauseCounts> counts_;
  std::map<std::string, CauseRow> fresh_;
};

struct CauseFilter {
  std::string id = {}, queue = {};
  std::vector<CauseState> states = {};  // any of these; empty = all
  bool with_tasks = false;              // only causes that have tasks under way or parked
  std::optional<EpochMs> since = {};    // only causes that have failed since then
  std::int64_t offset = 0;
  int limit = 50;
};

// What a person says about a cause; what is not set stays as it is.
struct CauseTriage {
  std::optional<CauseState> state = {};
  std::optional<std::string> owner = {}, note = {}, link = {};
};
inline constexpr std::size_t kCauseOwnerBytes = 255, kCauseNoteBytes = 4000, kCauseLinkBytes = 1000;

struct CausesFolded {
  bool more = false;
  std::vector<CauseRow> worse;  // ignored causes that have got worse
};

// Number of causes by state; and of those that were ignored and got worse (CauseRow::worse_at).
struct CauseTotals {
  std::map<CauseState, std::int64_t> by_state;
  std::int64_t worse = 0;
};

// Without a state: an owner works on it, one that is given up makes it known, and a note makes one known that
// is new or has regressed. One that is resolved stays so.
CauseState state_after(const CauseRow& before, const CauseTriage& triage);
// "queue orders: CardError: card declined": of events.
std::string describe(const CauseRow& cause);
// Detail of the event "cause_triaged".
std::string describe_triage(const CauseRow& before, const CauseRow& after, const std::string& who);

}  // namespace rung
