// insert() and apply() above the Tables of a database.
// Thread, errors: of its store (store.h).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/machine/machine.h"
#include "src/store/causes.h"
#include "src/store/tables.h"
#include "src/store/tasks.h"

namespace rung {

class TaskWriter {
 public:
  // Both outlive this.
  TaskWriter(Tables& tables, CauseBook& book) : tables_(tables), book_(book) {}

  struct ClaimLimits {
    std::size_t most_bytes = 0;
    std::size_t short_from = kShortClaims;  // from so many claims in one call on, they are short
  };
  // Store::insert(), Store::apply(). `claims`: set if the events are claims; the messages of first_claimed()
  // are then read with the commit (Tables::read_messages).
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
