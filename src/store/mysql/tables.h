// The tables of MySQL and MariaDB. One statement writes all rows with the same change, one the rest. Writes
// are queued (Session::later): an error is thrown where they are sent. Thread: the session's.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "src/store/mysql/render.h"
#include "src/store/mysql/session.h"
#include "src/store/tables.h"

namespace rung::mysql {

// The condition that the attempt c is a short claim of the row t.
inline Literal short_claim() { return Literal::rendered(render("short_claim")); }

// Inside a transaction: those of `leases` that `node` holds, by shard, with their rows locked by `statement`.
std::vector<Lease> lock_leases(Session& session, std::string_view statement, int node,
                               std::span<const Lease> leases);

class MysqlTables final : public Tables {
 public:
  explicit MysqlTables(Session& session) : session_(session) {}

  Result<void> transaction(const std::function<void()>& body, std::string_view name) override {
    return session_.transaction(body, name);
  }

  // leases.cc:
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

  std::unique_ptr<IntakeRows> intake(std::span<const NewTask> tasks) override;  // intake_rows.cc
  void read_messages(std::span<const TaskId> ids) override;
  double random() override;

  // The messages that the last transaction has read, once.
  std::vector<StoredMessage> messages() { return std::exchange(messages_, {}); }

 private:
  Session& session_;
  std::vector<StoredMessage> messages_;
};

}  // namespace rung::mysql
