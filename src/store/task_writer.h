// insert() and apply() above the Tables of a database.
// Thread, errors: of its store (store.h).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/machine/machine.h"
#include "src/store/causes.h"
#include "src/store/tables.h"
#include "src/store/tasks.h"

namespace rung {

// One call of insert(): which of its tasks get a row, and what the others are told. run() is called inside a
// transaction, which may be repeated: lapsed leases and rows that exist already are rare, so the first try
// does not look for them. Errors: thrown, as tables.h says.
class IntakeWriter {
 public:
  IntakeWriter(Tables& tables, const CauseBook& book, std::span<const NewTask> tasks);

  // True if guard_leases() is enough: each task is of one of the leases, and no row must be looked for.
  bool guard_suffices(const Fence& fence) const;
  // `look`: look for existing rows first; else a duplicate key repeats the transaction.
  std::vector<Inserted> run(const std::vector<Lease>& held, const Fence& fence, bool look);
  const CauseChanges& causes() const { return *changes_; }  // REQUIRES: run()

 private:
  struct Existing {
    TaskId id;
    bool over = false;
    int attempt = 0;
    EpochMs created_at;
  };

  bool is_held(const NewTask& n, const std::vector<Lease>& held) const;
  bool too_large_with_key() const;
  void find_ids();
  void find_keys();
  // True if the row is to be written.
  bool sort_out(std::size_t i, const std::vector<Lease>& held,
                std::unordered_map<std::string, TaskId>& in_batch, std::vector<TaskId>& to_free);
  void free_keys(std::vector<TaskId> to_free);
  void write(const std::vector<std::size_t>& fresh, int node);

  Tables& tables_;
  const std::span<const NewTask> tasks_;
  CauseTexts texts_;
  const std::unique_ptr<IntakeRows> rows_;
  bool by_hand_ = false;
  std::optional<CauseChanges> changes_;
  std::vector<std::size_t> order_;  // by id
  std::vector<Inserted> results_;
  std::unordered_set<TaskId> here_, taken_;  // ids in the table: from our earlier try; from others
  std::unordered_map<std::string, Existing> by_key_;
};

// Inside a transaction: insert() of one task, whatever the leases.
Inserted insert_child(Tables& tables, const CauseBook& book, const NewTask& child);

class TaskWriter {
 public:
  // Both outlive this.
  TaskWriter(Tables& tables, CauseBook& book) : tables_(tables), book_(book) {}

  // Store::insert(), Store::apply(). `claims`: the events are claims: the messages of first_claimed() are
  // read with the commit (Tables::read_messages).
  struct ClaimLimits {
    std::size_t most_bytes = 0;
    std::size_t short_from = kShortClaims;  // from so many claims in one call on, they are short
  };
  Result<std::vector<Inserted>> insert(std::span<const NewTask> tasks, const Fence& fence);
  Result<std::vector<Decision>> apply(std::span<const Event> events, const Fence& fence,
                                      const Decider& decide, const BulkStep* step = nullptr,
                                      const ClaimLimits* claims = nullptr);
  // Store::write_claims().
  Result<void> write_claims(std::span<const TaskId> ids);

 private:
  Tables& tables_;
  CauseBook& book_;
  int doubts_ = 0;          // number of insert() calls that still look for existing rows first
  int unread_backoff_ = 0;  // number of apply() calls of confirms that still read the rows
};

}  // namespace rung
