// The Tables of a MemoryDb (memory_tables.h has the rows). A transaction holds its lock. Nothing is undone:
// whatever may end a transaction or repeat it is thrown before its first write. Thread: its store's.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "src/store/tables.h"
#include "tests/support/memory/memory_store.h"

namespace rung {

class MemoryTransactions final : public Tables {
 public:
  explicit MemoryTransactions(MemoryDb& db) : db_(db) {}

  Result<void> transaction(const std::function<void()>& body, std::string_view name) override;

  std::vector<Lease> share_leases(const Fence& fence) override;
  void guard_leases(const Fence& fence) override;
  std::vector<Lease> current_leases() override;
  Locked lock(const Fence& fence, std::span<const TaskId> ids) override;

  void write_tasks(std::span<const ChangedTask> tasks) override;
  bool write_unread(std::span<const ChangedTask> tasks, const Fence& fence) override;
  void write_attempts(const AttemptChanges& attempts, bool repeated) override;
  void replace_message(const Task& task, const MessagePtr& message) override;
  void write_audit(std::span<const AuditRow> rows) override;
  void write_causes(const CauseChanges& changes, int node, EpochMs now) override;
  bool step_bulk(const BulkStep& step, const BulkStepCounts& counts) override;
  void keep_sent(const BulkStep& step, std::span<const TaskId> changed) override;

  std::unique_ptr<IntakeRows> intake(std::span<const NewTask> tasks) override;
  void read_messages(std::span<const TaskId> ids) override;
  double random() override;

  // The messages that the last transaction has read, once.
  std::vector<StoredMessage> messages() { return std::exchange(messages_, {}); }
  void mark_written() { wrote_ = true; }

 private:
  MemoryDb& db_;
  std::vector<StoredMessage> messages_;
  bool wrote_ = false;  // in this transaction
};

}  // namespace rung
