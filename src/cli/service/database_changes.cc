// Changes of tasks in the database. Without a lease: row locks and decide() protect against concurrent
// changes by sidecars, and the shard's owner finds new rows by its sweep.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <utility>

#include "plugin/brokers.h"
#include "src/api/messages/submission.h"
#include "src/cli/service/retry.h"
#include "src/cli/service/service.h"
#include "src/core/machine/submission.h"

namespace rung::cli {
namespace {

constexpr Ms kConfirmPollInterval{100};
constexpr int kConfirmPolls = 20;
constexpr int kMostIds = 4;  // ids tried for the new task of an edit

const Fence kNoLease{0, {}, true};

std::string errors_text(const api::FieldErrors& errors) {
  std::string out;
  for (const auto& error : errors) out += (out.empty() ? "" : "; ") + error.field + ": " + error.detail;
  return out;
}

class DatabaseChanges final : public TaskChanges {
 public:
  explicit DatabaseChanges(const DatabaseParts& parts)
      : parts_(parts),
        reserved_(reserved_headers(parts.config.broker)),
        random_(std::random_device{}()),
        ids_(static_cast<int>(random_() % 1024)) {}

  Done<Decision> change(const std::vector<TaskId>& ids, const Happening& what,
                        const std::string& reason) override {
    auto decisions = apply(ids, what, reason);
    // A task that is being published usually gets its confirm shortly.
    for (int tries = 0; decisions && tries < kConfirmPolls; ++tries) {
      std::vector<TaskId> later;
      std::vector<std::size_t> places;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if ((*decisions)[i].reason != kBeingPublished) continue;
        later.push_back(ids[i]);
        places.push_back(i);
      }
      if (later.empty()) break;
      std::this_thread::sleep_for(kConfirmPollInterval);
      auto decided = apply(later, what, reason);
      if (!decided) break;  // the others have been changed
      for (std::size_t i = 0; i < places.size(); ++i) (*decisions)[places[i]] = std::move((*decided)[i]);
    }
    if (!decisions) return {{}, decisions.error()};
    return {*std::move(decisions)};
  }

  Done<SubmitResult> submit(const std::vector<Json>& tasks) override {
    auto results = submit_all(tasks);
    if (!results) return {{}, results.error()};
    return {*std::move(results)};
  }

  Result<api::Original> original(TaskId id) override { return api::read_original(parts_.store, id); }
  ReservedHeaders reserved() const override { return reserved_; }

  Result<api::Edited> edit(const EditWish& wish, api::FieldErrors&) override {
    const ByHand by_hand{parts_.who, wish.original.row.task.version, wish.reason};
    std::vector<Decision> decisions;
    for (int tries = 0; tries < kMostIds; ++tries) {
      const auto now = parts_.store.now();
      if (!now) return tl::unexpected(now.error());
      const Event event = api::edit_event(wish.original, wish.edited, by_hand, *now);
      auto decided = retry_transient([&] {
        return parts_.store.apply({&event, 1}, Fence{}, decider(parts_.config.rules));
      });
      if (!decided) return tl::unexpected(decided.error());
      decisions = *std::move(decided);
      if (decisions.front().reason != kIdTaken) break;
    }
    return api::outcome_of_edit(parts_.store, decisions.front(), *wish.edited);
  }

 private:
  // In one transaction.
  Result<std::vector<Decision>> apply(const std::vector<TaskId>& ids, const Happening& what,
                                      const std::string& reason) {
    std::vector<Event> events;
    const ByHand by_hand{parts_.who, std::nullopt, reason};
    for (const TaskId id : ids) events.push_back({id, what, by_hand});
    return retry_transient([&] { return parts_.store.apply(events, Fence{}, decider(parts_.config.rules)); });
  }

  Result<std::vector<SubmitResult>> submit_all(const std::vector<Json>& tasks) {
    std::vector<SubmitResult> results(tasks.size());
    std::vector<api::ReadTask> requests;
    std::vector<std::size_t> places;  // maps `requests` to `results`
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      api::FieldErrors errors;
      api::ReadTask read = api::read_task(tasks[i], "", *parts_.config.rules, reserved_, parts_.who, errors);
      if (!errors.empty()) {
        results[i] = {"refused", errors_text(errors), {}, true};
        continue;
      }
      places.push_back(i);
      requests.push_back(std::move(read));
    }
    if (requests.empty()) return results;
    auto inserted = insert(requests);
    if (!inserted) return tl::unexpected(inserted.error());
    for (std::size_t i = 0; i < places.size(); ++i) results[places[i]] = std::move((*inserted)[i]);
    return results;
  }

  // In one transaction.
  Result<std::vector<SubmitResult>> insert(const std::vector<api::ReadTask>& requests) {
    auto now = retry_transient([&] { return parts_.store.now(); });
    if (!now) return tl::unexpected(now.error());
    // One shard per batch: the rows are adjacent in the index.
    const int shard = static_cast<int>(random_() % kShards);
    std::vector<NewTask> tasks;
    for (const api::ReadTask& request : requests) tasks.push_back(make_task(request.submission, shard, *now));
    auto inserted = retry_transient([&] { return parts_.store.insert(tasks, kNoLease); });
    if (!inserted) return tl::unexpected(inserted.error());
    std::vector<SubmitResult> results;
    for (std::size_t i = 0; i < inserted->size(); ++i) {
      auto result = to_result((*inserted)[i], std::move(tasks[i]), requests[i].content, *now);
      if (!result) return tl::unexpected(result.error());
      results.push_back(*std::move(result));
    }
    return results;
  }

  NewTask make_task(const Submission& s, int shard, EpochMs now) {
    NewTask made = s.task;
    made.task.id = ids_.next(now);
    made.task.shard = shard;
    made.task.created_at = now;
    made.task.rule_headers = rule_headers_of(*made.message, *parts_.config.rules);
    begin_delay(made.task, s.directives, *parts_.config.rules, now, s.at.value_or(now + s.delay));
    return made;
  }

  Result<SubmitResult> to_result(Inserted inserted, NewTask task, const std::string& content, EpochMs now) {
    // Ids are not unique here, because this process has no node number: the store reports a duplicate id.
    while (inserted.how == Inserted::How::id_taken) {
      task.task.id = ids_.next(now);
      auto once_more = retry_transient([&] { return parts_.store.insert({&task, 1}, kNoLease); });
      if (!once_more) return tl::unexpected(once_more.error());
      inserted = once_more->front();
    }
    if (inserted.how == Inserted::How::not_held)
      return permanent("internal error: the store rejected a task without a lease");
    if (inserted.how == Inserted::How::too_large)
      return SubmitResult{"refused", "the body is too large for the database (max_allowed_packet)"};
    if (inserted.how == Inserted::How::inserted) return SubmitResult{"created", "", inserted.id};
    auto origin = parts_.store.origin(inserted.id);
    if (!origin) return tl::unexpected(origin.error());
    if (content_of_origin(*origin) == content)
      return SubmitResult{"duplicate", duplicate_text(task.task.message_id), inserted.id};
    return SubmitResult{"conflict", conflict_text(task.task.message_id, inserted.id), inserted.id};
  }

  const DatabaseParts parts_;
  const ReservedHeaders reserved_;
  std::mt19937_64 random_;
  IdSource ids_;
};

}  // namespace

std::string duplicate_text(const std::string& message_id) {
  return "message-id " + message_id + " was already submitted";
}
std::string conflict_text(const std::string& message_id, TaskId id) {
  return "message-id " + message_id + " belongs to task " + id.str() + ", which has different content";
}

std::unique_ptr<TaskChanges> database_changes(const DatabaseParts& parts) {
  return std::make_unique<DatabaseChanges>(parts);
}

}  // namespace rung::cli
