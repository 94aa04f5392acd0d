// The service by the database.
#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "src/api/queues/gates.h"
#include "src/api/tasks/views.h"
#include "src/cli/service/service.h"

namespace rung::cli {
namespace {

class DatabaseQueries final : public TaskQueries {
 public:
  explicit DatabaseQueries(const DatabaseParts& parts) : parts_(parts) {}

  Result<EpochMs> now() override { return parts_.store.now(); }
  Result<std::vector<TaskRow>> list(const Filter& filter) override { return parts_.store.list(filter); }
  Result<Counted> count(const Filter& filter, const std::optional<CountBy>& by) override {
    constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();
    auto counts = api::count_tasks(parts_.store, filter, by, kAll);
    if (!counts) return tl::unexpected(counts.error());
    return Counted{*std::move(counts), kAll};
  }
  Result<std::optional<TaskRow>> find(TaskId id) override { return parts_.store.find(id); }
  Result<Silence> silence_of(const Task& task) override {
    return rung::silence_of(task, *parts_.config.rules);
  }
  Result<std::optional<QueueGate>> holding_gate(const Task& task) override {
    return api::holding_gate(parts_.store, task);
  }
  Result<std::vector<TaskId>> children(const Task& task) override {
    return api::children_of(parts_.store, task);
  }
  Result<std::vector<AttemptRow>> history(TaskId id) override { return parts_.store.history(id); }
  Result<std::vector<AuditRow>> audit(TaskId id) override { return parts_.store.audit(id); }
  Result<AuditPage> audit_log(const AuditFilter& filter) override { return parts_.store.audit_log(filter); }
  Result<std::string> origin(TaskId id) override { return parts_.store.origin(id); }

  Result<MessagePtr> message(TaskId id) override {
    const TaskId ids[] = {id};
    auto messages = parts_.store.messages(ids);
    if (!messages) return tl::unexpected(messages.error());
    if (messages->empty()) return MessagePtr();
    const StoredMessage& stored = messages->front();
    if (stored.message != nullptr) return stored.message;
    return permanent(fmt::format("the stored message of task {} is unreadable: {}", id.str(), stored.broken));
  }

  std::string missing_right(const std::string& view) const override {
    return view + ": the database's user needs the rights of docs/permissions.md";
  }
  std::string whose() const override { return "this user"; }

 private:
  const DatabaseParts parts_;
};

class DatabaseSystem final : public SystemService {
 public:
  explicit DatabaseSystem(const DatabaseParts& parts) : parts_(parts) {}

  Result<api::Causes> causes(const CauseFilter& filter) override {
    return api::read_causes(parts_.store, filter);
  }
  Result<Json> cause(const std::string& cause) override {
    return api::read_cause(parts_.store, cause, parts_.config.store.index_headers);
  }
  Result<CauseRow> triage(const std::string& cause, const CauseTriage& change) override {
    return api::change_cause(parts_.store, cause, change, parts_.who);
  }
  // The user's name alone: "alice@host (cli)" is for the audit.
  Result<std::string> my_name() override { return parts_.who.substr(0, parts_.who.find('@')); }

  Result<std::vector<QueueGate>> gates() override { return api::read_queues(parts_.store); }
  Result<Pause> pause(const api::PauseRequest& request) override {
    api::PauseRequest whole = request;
    whole.who = parts_.who;
    return api::pause_queue(parts_.store, whole, parts_.config.rules->targets());
  }
  Result<api::ResumedQueue> resume(const api::ResumeRequest& request) override {
    api::ResumeRequest whole = request;
    whole.who = parts_.who;
    return api::resume_queue(parts_.store, whole, parts_.config.rules->targets());
  }

  Result<api::Nodes> nodes(EpochMs now, bool all) override { return api::read_nodes(parts_.store, now, all); }
  Result<api::Stats> stats(EpochMs now, Ms max_overdue) override {
    return api::read_stats(parts_.store, counter_, {now, max_overdue, api::TaskCounter::kAll});
  }

 private:
  const DatabaseParts parts_;
  const SystemClock clock_;
  api::TaskCounter counter_{clock_};
};

}  // namespace

Service database_service(const DatabaseParts& parts) {
  Service service;
  service.tasks = std::make_unique<DatabaseQueries>(parts);
  service.changes = database_changes(parts);
  service.bulks = database_bulks(parts);
  service.system = std::make_unique<DatabaseSystem>(parts);
  return service;
}

}  // namespace rung::cli
