// What commands ask for and change, whoever does it: the database itself (database.cc), or an instance's HTTP
// API (api.cc). Both answer alike, so that a command prints the same. Thread: main's; every call can block,
// with a bound. Errors: `transient`: the database or the instance is not reachable; `refused`: it refuses the
// login, the token or the right; `permanent`: what was asked for is wrong; `not_found`.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/api/messages/edit.h"
#include "src/api/queues/pauses.h"
#include "src/api/stats/nodes.h"
#include "src/api/stats/stats.h"
#include "src/api/tasks/bulks.h"
#include "src/api/tasks/causes.h"
#include "src/bridge/changes/bulk.h"
#include "src/config/config.h"
#include "src/core/base/clock.h"
#include "src/core/base/result.h"
#include "src/core/machine/machine.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::cli {

using Json = api::Json;

struct Counted {
  TaskCounts counts;
  std::int64_t most = 0;  // counting stopped there
};

class TaskQueries {
 public:
  virtual ~TaskQueries() = default;

  // The database's time.
  virtual Result<EpochMs> now() = 0;
  virtual Result<std::vector<TaskRow>> list(const Filter& filter) = 0;
  virtual Result<Counted> count(const Filter& filter, const std::optional<CountBy>& by) = 0;
  virtual Result<std::optional<TaskRow>> find(TaskId id) = 0;
  // What silence after a delivery of this task means.
  virtual Result<Silence> silence_of(const Task& task) = 0;
  virtual Result<std::optional<QueueGate>> holding_gate(const Task& task) = 0;
  virtual Result<std::vector<TaskId>> children(const Task& task) = 0;  // api::children_of()
  virtual Result<std::vector<AttemptRow>> history(TaskId id) = 0;
  virtual Result<std::vector<AuditRow>> audit(TaskId id) = 0;
  virtual Result<AuditPage> audit_log(const AuditFilter& filter) = 0;
  virtual Result<std::string> origin(TaskId id) = 0;  // NewTask::origin_json; not_found
  // nullptr: it has been deleted.
  virtual Result<MessagePtr> message(TaskId id) = 0;
  // After a call was refused: the right that is missing to read this view, and who lacks it.
  virtual std::string missing_right(const std::string& view) const = 0;
  virtual std::string whose() const = 0;  // "this user"
};

// The result of one submitted task. Without an id nothing was written, and `reason` says why.
struct SubmitResult {
  std::string result;  // created, duplicate, conflict, refused
  std::string reason;
  std::optional<TaskId> id = {};
  bool wrong = false;  // refused: the request is no task
  bool good() const { return result == "created" || result == "duplicate"; }
};

// SubmitResult::reason of a duplicate, and of a conflict with that task.
std::string duplicate_text(const std::string& message_id);
std::string conflict_text(const std::string& message_id, TaskId id);

// An edit of a parked task: what shall change, and the message that this makes of it.
struct EditWish {
  const api::Original& original;
  const api::Changes& changes;
  const MessagePtr& edited;
  std::string reason;
};

// What was done, in the order in which it was asked for. Less than that: `stopped` says why; the first one
// without a result may have been done, those after it have not.
template <typename T>
struct Done {
  std::vector<T> results = {};
  std::optional<Error> stopped = {};
};

class TaskChanges {
 public:
  virtual ~TaskChanges() = default;

  // One decision for each id.
  virtual Done<Decision> change(const std::vector<TaskId>& ids, const Happening& what,
                                const std::string& reason) = 0;
  // Tasks in the format of POST /v1/tasks, at most kMostSubmitted; one result for each. Those that are wrong
  // do not keep the others from being written.
  virtual Done<SubmitResult> submit(const std::vector<Json>& tasks) = 0;
  static constexpr std::size_t kMostSubmitted = 500;

  virtual Result<api::Original> original(TaskId id) = 0;
  // Headers that an edit may not change, as far as they are known here.
  virtual ReservedHeaders reserved() const = 0;
  // `errors`: what is wrong with the changes, which then were not made.
  virtual Result<api::Edited> edit(const EditWish& wish, api::FieldErrors& errors) = 0;
};

// One bulk on its way, carried out by this process or watched.
class BulkRun {
 public:
  explicit BulkRun(Bulk bulk) : bulk_(std::move(bulk)) {}
  virtual ~BulkRun() = default;

  const Bulk& bulk() const { return bulk_; }
  // Goes on with it, or looks how far it is. How long to wait before the next call.
  virtual Result<Ms> step() = 0;
  // What the last step has waited for, for people; "" = nothing.
  std::string news() { return std::exchange(news_, ""); }

 protected:
  // The bulk as it is now. Whoever looked at its canary, its success is news.
  void see(Bulk bulk) {
    if (!bulk_.canary_done && bulk.canary_done) news_ = bridge::kCanaryPassed;
    bulk_ = std::move(bulk);
  }

  Bulk bulk_;
  std::string news_;
};

class BulkService {
 public:
  virtual ~BulkService() = default;

  // For people: what becomes of a bulk that is still running when its command ends.
  virtual std::string left_running(std::int64_t id) const = 0;
  // Why a redrive cannot go there; "" = it can, as far as is known here.
  virtual std::string refused_target(const Target& target) const = 0;
  // {"dry_run": true, "count": ...}: what the API answers.
  virtual Result<Json> dry_run(const NewBulk& asked, const std::optional<CountBy>& by) = 0;
  virtual Result<Json> redrive_notes(const NewBulk& asked) = 0;  // of api/tasks/bulks.h, at least
  virtual Result<Bulk> create(const NewBulk& asked) = 0;
  virtual Result<std::optional<Bulk>> find(std::int64_t id) = 0;
  virtual Result<std::vector<Bulk>> list(int limit, std::optional<std::int64_t> below) = 0;
  // A person changes its state. nullopt: there is no such bulk; one that has ended keeps its state.
  virtual Result<std::optional<Bulk>> control(const BulkControl& control) = 0;
  virtual Result<std::optional<api::Outcomes>> outcomes(const Bulk& bulk) = 0;
  virtual std::unique_ptr<BulkRun> run(Bulk bulk) = 0;
};

// Causes, queues and instances.
class SystemService {
 public:
  virtual ~SystemService() = default;

  virtual Result<api::Causes> causes(const CauseFilter& filter) = 0;
  virtual Result<Json> cause(const std::string& cause) = 0;  // api::read_cause()
  virtual Result<CauseRow> triage(const std::string& cause, const CauseTriage& change) = 0;
  // The name by which others know whoever calls this.
  virtual Result<std::string> my_name() = 0;

  virtual Result<std::vector<QueueGate>> gates() = 0;
  virtual Result<Pause> pause(const api::PauseRequest& request) = 0;
  virtual Result<api::ResumedQueue> resume(const api::ResumeRequest& request) = 0;

  virtual Result<api::Nodes> nodes(EpochMs now, bool all) = 0;
  virtual Result<api::Stats> stats(EpochMs now, Ms max_overdue) = 0;
};

struct Service {
  std::unique_ptr<TaskQueries> tasks;
  std::unique_ptr<TaskChanges> changes;
  std::unique_ptr<BulkService> bulks;
  std::unique_ptr<SystemService> system;
};

// The service by the database itself.
struct DatabaseParts {
  MysqlStore& store;
  const Config& config;
  const Clock& clock;
  std::string who;  // for the audit
};
// REQUIRES: the parts outlive the service.
Service database_service(const DatabaseParts& parts);

// For database_service().
std::unique_ptr<TaskChanges> database_changes(const DatabaseParts& parts);
std::unique_ptr<BulkService> database_bulks(const DatabaseParts& parts);

// The service by the HTTP API of an instance (docs/http.md): whoever uses it needs neither the database's nor
// the broker's password. Asks for the instance's time first, so that a wrong address or token is reported
// before anything is done. Errors also: the file with the token.
Result<Service> api_service(const ApiOptions& options);

}  // namespace rung::cli
