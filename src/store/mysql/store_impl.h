// What the sources of MysqlStore and MysqlTables share. Their methods are in the other files here, each named
// for its subject, and in reads.cc. Thread: of the session.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/store/mysql/columns.h"
#include "src/store/mysql/mysql_store.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/session.h"
#include "src/store/tables.h"

namespace rung::mysql {

inline constexpr auto kAllShards = [] {
  std::array<int, kShards> all{};
  std::iota(all.begin(), all.end(), 0);
  return all;
}();

// Inside Session::run().
ServerVariables read_variables(Session& session);

// The filter as SQL conditions, for a statement in which rung_tasks is t.
Sql conditions(const Filter& filter);

// Inside run() or transaction(). `event.node` is ignored; `node`: of the instance, 0 = none.
void write_event(Session& session, const SystemEvent& event, int node = 0);

// The condition that the runner of the step still owns its bulk, and nobody else has done the step.
inline Sql if_ours(const BulkStep& step) {
  return render("bulk.if_ours", {{"bulk", step.bulk}, {"runner", step.runner}, {"from", step.from}});
}

// Inside a transaction. Whether this batch is the maker's latest of its kind: its answer was lost, and it is
// repeated. If not, it is the latest from now on. kind: "gates", "counts".
bool is_repeated(Session& session, std::string_view kind, const std::string& maker, const std::string& id);

// Inside run(). 0: there is no schema, or it was not finished.
int schema_version(Session& session);

// The condition that the attempt c is a short claim of the row t.
inline Sql short_claim() { return render("short_claim"); }

// The tables of MySQL and MariaDB. One statement writes all rows with the same change, one the rest. Writes
// are queued (Session::later): an error is thrown where they are sent.
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

  std::unique_ptr<IntakeRows> intake(std::span<const NewTask> tasks) override;
  void read_messages(std::span<const TaskId> ids) override;
  double random() override;

  // The messages that the last transaction has read, once.
  std::vector<StoredMessage> messages() { return std::exchange(messages_, {}); }

 private:
  Session& session_;
  std::vector<StoredMessage> messages_;
};

}  // namespace rung::mysql
