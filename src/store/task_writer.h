// TaskWriter: insert(), apply() and claim(), the same for every database. Tables: what each database does for
// it. Thread, errors: of the store (store.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/machine/by_hand.h"
#include "src/core/machine/machine.h"
#include "src/core/message/message.h"
#include "src/core/task/task.h"
#include "src/store/store.h"

namespace rung {

// Thrown inside a transaction: another writer was first; undo it and repeat it. (A StoreError: undo it.)
struct Again {
  std::string why;
};

// A task that is locked. short_claim: it is claimed, but not its row: whatever is written, the claim is, too.
struct LockedTask {
  Task task;
  bool short_claim = false;
  std::optional<Task> before = {};  // if it has changed
  bool claimed_short = false;       // now: the row stays as it is
};

struct ChangedTask {
  const Task* before = nullptr;
  const Task* after = nullptr;
  bool short_claim = false;  // the row does not show the claim of `before` yet
};

// What one apply() writes to attempts, in the order of its events: several may concern the same attempt.
struct AttemptChanges {
  std::vector<std::pair<TaskId, int>> dropped;  // rows to delete first
  // To upsert as machine.h defines it: unset fields (nullopt, pending, "") leave the value unchanged; level
  // and due_at are written once, when the attempt begins.
  std::vector<Attempt> kept;

  void add(const Attempt& said, bool drop) {
    if (!drop) return kept.push_back(said);
    dropped.emplace_back(said.task, said.attempt);
    std::erase_if(kept, [&](const Attempt& a) { return a.task == said.task && a.attempt == said.attempt; });
  }
};

// What a step of a bulk adds to its row.
struct BulkStepCounts {
  TaskId last;  // the last task of the step
  std::int64_t done = 0, applied = 0, refused = 0;
};

// A task of one insert(), as it is stored.
struct NewRow {
  NewRow(const NewTask& of, std::size_t at)
      : task(&of),
        place(at),
        key(of.intake_key),
        properties(properties_to_json(of.message->properties)),
        headers(headers_json(*of.message)) {
    if (!key.empty()) key.resize(16, '\0');
  }
  static std::optional<std::string> headers_json(const Message& message) {
    return message.headers ? std::optional(headers_to_json(*message.headers)) : std::nullopt;
  }
  std::size_t bytes() const {  // of its message and its origin
    return task->message->body.size() + properties.size() + (headers ? headers->size() : 0) +
           task->origin_json.size();
  }

  const NewTask* task;
  std::size_t place;       // in the call
  std::string key;         // "" or 16 bytes
  std::string properties;  // JSON
  std::optional<std::string> headers;
  std::string cause = {};  // "" = it has not failed
};

// A database reads, locks and writes rows, and decides nothing. Everything but transaction() and
// short_claims_from() is called inside a transaction, whose rows stay locked until it ends. Thrown are
// StoreError, Again, and the database's own errors, of which transaction() makes a StoreError. A write may
// wait until the commit, and its error with it. REQUIRES: the caller throws only before its first write,
// because the memory store cannot undo one.
class Tables {
 public:
  virtual ~Tables() = default;

  // Runs `body` in one transaction, and repeats it a few times after Again and what means the same to the
  // database. `name`: of its failpoints, NAME.before_commit and NAME.after_commit.
  virtual void transaction(const std::function<void()>& body, std::string_view name) = 0;

  // Those of its leases that the node of `fence` holds. They cannot be taken from it until the end.
  virtual std::vector<Lease> share_leases(const Fence& fence) = 0;
  // Without a round trip: if the node does not hold all of them, nothing that follows is done, and the
  // transaction is repeated.
  virtual void guard_leases(const Fence& fence) = 0;
  // The leases that any instance holds now.
  virtual std::vector<Lease> current_leases() = 0;

  // share_leases(), then the tasks, in order of ids, which `ids` are in.
  struct Locked {
    std::vector<Lease> held = {};
    EpochMs now = {};  // not later than the locks. REQUIRES: there is a task
    std::vector<LockedTask> tasks = {};
  };
  virtual Locked lock(const Fence& fence, std::span<const TaskId> ids) = 0;

  // --- writes. REQUIRES: the tasks are locked, and in order of ids.
  virtual void write_tasks(std::span<const ChangedTask> tasks) = 0;
  // The same without a lock, with guard_leases(): the transaction is repeated if a row is no longer as it was
  // `before`. False, and nothing is done, if that is not worthwhile.
  virtual bool write_unread(std::span<const ChangedTask> tasks, const Fence& fence) = 0;
  // `repeated`: an earlier try of the transaction was undone.
  virtual void write_attempts(const AttemptChanges& attempts, bool repeated) = 0;
  // The message has the same body; what the row had before is added to its origin.
  virtual void replace_message(const Task& task, const MessagePtr& message) = 0;
  virtual void write_audit(std::span<const AuditRow> rows) = 0;
  // `node`: of the instance, for the events of new causes.
  virtual void write_causes(const CauseChanges& changes, int node, EpochMs now) = 0;
  // Before the other writes. False: the bulk is paused, has ended, or is run by another process.
  virtual bool step_bulk(const BulkStep& step, const BulkStepCounts& counts) = 0;
  // After write_tasks(): Store::sent_by_bulk() returns these tasks.
  virtual void keep_sent(const BulkStep& step, std::span<const TaskId> changed) = 0;

  // --- new tasks
  virtual std::size_t largest_row() const = 0;  // the most NewRow::bytes() that the database accepts
  // Rows that have the id of one of these, with what tells whether they are of the same message.
  struct SameId {
    TaskId id;
    EpochMs created_at;
    std::string message_id, body;
  };
  virtual std::vector<SameId> find_ids(std::span<const NewRow> rows) = 0;
  // The tasks that have the key of one of these, as they are with their short claims.
  struct SameKey {
    std::string key;
    TaskId id;
    State state = State::unknown;
    Kind kind = Kind::retry;
    int attempt = 0;
    EpochMs created_at;
  };
  virtual std::vector<SameKey> find_keys(std::span<const NewRow> rows) = 0;
  // Takes the keys away from those of `ids` that are over (is_over) or in `open`; returns how many. Both
  // ascending.
  virtual std::int64_t free_keys(std::span<const TaskId> ids, std::span<const TaskId> open) = 0;
  // In order of ids. The transaction is repeated if there is a row with one of their ids or keys.
  virtual void insert_rows(std::span<const NewRow* const> rows) = 0;

  // Reads these messages with the commit.
  virtual void read_messages(std::span<const TaskId> ids, std::vector<StoredMessage>& into) = 0;
  virtual double random() = 0;  // [0, 1), for jitter
  // From so many claims in one call on, they are short.
  virtual std::size_t short_claims_from() const { return kShortClaims; }
};

class TaskWriter : public Store, protected Tables {
 public:
  explicit TaskWriter(std::shared_ptr<CauseBook> book) : book_(std::move(book)) {}

  std::vector<Inserted> insert(std::span<const NewTask> tasks, const Fence& fence) override;
  std::vector<Decision> apply(std::span<const Event> events, const Fence& fence, const Decider& decide,
                              const BulkStep* step = nullptr) override {
    return write(events, fence, decide, step, nullptr);
  }
  Claimed claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                std::size_t most_bytes) override;
  void write_claims(std::span<const TaskId> ids) override;

 protected:
  const std::shared_ptr<CauseBook> book_;

 private:
  struct Claims {
    std::size_t most_bytes;
    std::vector<StoredMessage> messages = {};
  };
  std::vector<Decision> write(std::span<const Event> events, const Fence& fence, const Decider& decide,
                              const BulkStep* step, Claims* claims);

  int doubts_ = 0;          // number of insert() calls that still look for existing rows first
  int unread_backoff_ = 0;  // number of apply() calls of confirms that still read the rows
};

}  // namespace rung
