// Changes of tasks over HTTP: the instance decides, and its audit names the token.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <variant>

#include "plugin/brokers.h"
#include "src/api/messages/submission.h"
#include "src/api/tasks/views.h"
#include "src/cli/service/api_client.h"
#include "src/core/base/rfc3339.h"
#include "src/core/message/message_json.h"

namespace rung::cli {
namespace {

using Answer = ApiClient::Answer;

constexpr int kTooLarge = 413;

// The last part of the path, and the body.
struct ChangeRequest {
  const char* action = "";
  Json body = Json::object();
};

struct ToRequest {
  ChangeRequest operator()(const event::Cancel&) const { return {"cancel"}; }
  ChangeRequest operator()(const event::Discard&) const { return {"discard"}; }
  ChangeRequest operator()(const event::Fire&) const { return {"fire"}; }
  ChangeRequest operator()(const event::Reschedule& e) const {
    return {"reschedule", e.at ? Json{{"at", to_rfc3339(*e.at)}} : Json{{"delay", e.delay.count()}}};
  }
  ChangeRequest operator()(const event::Redrive& e) const {
    ChangeRequest request{"redrive"};
    add_target(e.elsewhere, request.body);
    if (e.even_reported) request.body["even_reported"] = true;
    if (e.even_replaced) request.body["even_replaced"] = true;
    return request;
  }
  ChangeRequest operator()(const event::Finish& e) const {
    ChangeRequest request{"finish", {{"result", e.succeeded ? "succeeded" : "failed"}}};
    if (!e.error.empty()) request.body["error"] = e.error;
    if (!e.executor.empty()) request.body["executor"] = e.executor;
    if (e.attempt > 0) request.body["attempt"] = e.attempt;
    if (e.even_reported) request.body["even_reported"] = true;
    return request;
  }
  // What no person does.
  template <typename Other>
  ChangeRequest operator()(const Other&) const {
    return {};
  }
};

// A second time it changes nothing more: its answer may have been lost.
bool is_safe_to_repeat(const Happening& what) {
  if (const auto* finish = std::get_if<event::Finish>(&what)) return finish->succeeded || finish->attempt > 0;
  if (const auto* move = std::get_if<event::Reschedule>(&what)) return move->at.has_value();
  return std::holds_alternative<event::Cancel>(what) || std::holds_alternative<event::Discard>(what) ||
         std::holds_alternative<event::Fire>(what) || std::holds_alternative<event::Redrive>(what);
}

// The fields that are wrong; "tasks[3].delay" of an array's element is `delay`.
api::FieldErrors errors_of(const Json& problem, const std::string& prefix = {}) {
  api::FieldErrors errors;
  const auto list = problem.is_object() ? problem.find("errors") : problem.end();
  if (list == problem.end() || !list->is_array()) return errors;
  for (const Json& one : *list) {
    api::Reading read(one, "error");
    std::string field = read.text("field");
    if (field.starts_with(prefix + ".")) field.erase(0, prefix.size() + 1);
    if (field == prefix) field = "body";
    errors.push_back({std::move(field), read.text("detail")});
  }
  return errors;
}

std::string joined(const api::FieldErrors& errors, bool with_fields) {
  std::string out;
  for (const auto& [field, detail] : errors)
    out.append(out.empty() ? "" : "; ").append(with_fields ? field + ": " + detail : detail);
  return out;
}

Decision refused(std::string reason) {
  Decision decision;
  decision.verdict = Decision::Verdict::refused;
  decision.reason = std::move(reason);
  return decision;
}

// What the editor left of the headers, as what to set and what to remove.
api::Changes by_names(const rung::Table& before, const rung::Table& after) {
  api::Changes changes;
  for (const auto& [name, value] : after) {
    const Value* was = find(before, name);
    if (was == nullptr || !(*was == value)) changes.set.emplace_back(name, value);
  }
  for (const auto& [name, value] : before) {
    if (find(after, name) == nullptr) changes.unset.push_back(name);
  }
  return changes;
}

class ApiChanges final : public TaskChanges {
 public:
  explicit ApiChanges(ApiClientPtr client) : client_(std::move(client)), queries_(api_queries(client_)) {}

  Done<Decision> change(const std::vector<TaskId>& ids, const Happening& what,
                        const std::string& reason) override {
    ChangeRequest request = std::visit(ToRequest{}, what);
    if (!reason.empty()) request.body["reason"] = reason;
    const bool safe = is_safe_to_repeat(what);
    Done<Decision> done;
    for (const TaskId id : ids) {
      const std::string path = "/v1/tasks/" + id.str() + "/" + request.action;
      auto decision = decision_of(safe ? client_->call_patiently("POST", path, &request.body)
                                       : client_->call("POST", path, &request.body));
      if (!decision) {
        done.stopped = decision.error();
        return done;
      }
      done.results.push_back(*std::move(decision));
    }
    return done;
  }

  Done<SubmitResult> submit(const std::vector<Json>& tasks) override {
    Done<SubmitResult> done;
    done.stopped = submit_into(done.results, tasks);
    return done;
  }

  Result<api::Original> original(TaskId id) override {
    auto row = queries_->find(id);
    if (!row) return tl::unexpected(row.error());
    if (!*row) return not_found("no task with retry-id " + id.str());
    auto message = queries_->message(id);
    if (!message) return tl::unexpected(message.error());
    if (*message == nullptr) return not_found("the message of task " + id.str() + " has been deleted");
    return api::Original{**std::move(row), *std::move(message), ""};
  }
  // Those of RabbitMQ, so that most mistakes are reported before the question. The instance checks those of
  // its broker.
  ReservedHeaders reserved() const override {
    BrokerOptions rabbitmq;
    rabbitmq.url = "amqp://localhost";
    return reserved_headers(rabbitmq);
  }

  Result<api::Edited> edit(const EditWish& wish, api::FieldErrors& errors) override {
    const TaskId id = wish.original.row.task.id;
    const Json body = edit_body(wish);
    const auto answer = client_->call("POST", "/v1/tasks/" + id.str() + "/edit", &body);
    if (!answer) return tl::unexpected(answer.error());
    if (answer->good()) {
      auto row = read_answer(*client_, answer->json, api::task_from_json);
      if (!row) return tl::unexpected(row.error());
      const bool created = answer->status == 201;
      return api::Edited{created ? api::Edited::How::created : api::Edited::How::same, row->task,
                         created ? "" : api::same_edit_text(row->task.id)};
    }
    if (answer->status == 400) {
      errors = errors_of(answer->json);
      for (api::FieldError& error : errors) {
        // In the editor there are headers.
        if (wish.changes.headers && error.field.ends_with("_headers")) error.field = "headers";
      }
    }
    return refused_edit(*answer, id);
  }

 private:
  // Why it stopped; none: each has a result. What is too much for one request is sent in halves.
  std::optional<Error> submit_into(std::vector<SubmitResult>& results, std::span<const Json> tasks) {
    Json all = Json::array();
    for (const Json& task : tasks) all.push_back(task);
    const auto answer = client_->call("POST", "/v1/tasks", &all);
    if (!answer) return answer.error();
    if (answer->status == kTooLarge && tasks.size() > 1) {
      const std::size_t half = tasks.size() / 2;
      if (auto stopped = submit_into(results, tasks.first(half))) return stopped;
      return submit_into(results, tasks.subspan(half));
    }
    if (answer->status == kTooLarge) {
      results.push_back({"refused", answer->text("detail")});
      return std::nullopt;
    }
    if (!answer->good()) return client_->error_of(*answer);
    const api::Reading read(answer->json, "submit");
    const Json& list = read.part("results");
    if (!list.is_array() || list.size() != tasks.size())
      return client_->strange("not as Rung writes it: its results are not those of the tasks");
    for (std::size_t i = 0; i < list.size(); ++i) {
      auto result = result_of(list[i], tasks[i], "tasks[" + std::to_string(i) + "]");
      if (!result) return client_->strange(result.error().message);
      results.push_back(*std::move(result));
    }
    return std::nullopt;
  }

  Result<Decision> decision_of(const Result<Answer>& answer) const {
    if (!answer) return tl::unexpected(answer.error());
    if (answer->good()) {
      auto row = read_answer(*client_, answer->json, api::task_from_json);
      if (!row) return tl::unexpected(row.error());
      Decision decision;
      decision.task = std::move(row->task);
      decision.reason = answer->text("unchanged_because");
      decision.verdict = decision.reason.empty() ? Decision::Verdict::applied : Decision::Verdict::stale;
      return decision;
    }
    if (answer->status == 404) return refused(std::string(kNoSuchTask));
    if (answer->status == 400) {
      const std::string wrong = joined(errors_of(answer->json), false);
      return refused(wrong.empty() ? answer->text("detail") : wrong);
    }
    if (answer->status == 409 || answer->status == 403) return refused(answer->text("detail"));
    return tl::unexpected(client_->error_of(*answer));
  }

  static Result<SubmitResult> result_of(const Json& json, const Json& task, const std::string& place) {
    api::Reading read(json, "result");
    const std::int64_t status = read.integer("status");
    api::Reading request(task, "task");
    const std::string message_id = request.text("message_id");
    if (status == 200 || status == 201) {
      auto row = api::task_from_json(read.part("task"));
      if (!row) return tl::unexpected(row.error());
      if (status == 201) return SubmitResult{"created", "", row->task.id};
      return SubmitResult{"duplicate", duplicate_text(message_id), row->task.id};
    }
    api::Reading error(read.part("error"), "result.error");
    if (error.text("code") == "id_reused") {
      const TaskId id = error.id("retry_id");
      return error.done(SubmitResult{"conflict", conflict_text(message_id, id), id});
    }
    const std::string wrong = joined(errors_of(read.part("error"), place), true);
    return read.done(
        SubmitResult{"refused", wrong.empty() ? error.text("detail") : wrong, {}, status == 400});
  }

  static Json edit_body(const EditWish& wish) {
    const api::Original& original = wish.original;
    Json body = {{"version", original.row.task.version}};
    if (!wish.reason.empty()) body["reason"] = wish.reason;
    if (wish.changes.body) body["body_base64"] = api::to_base64(*wish.changes.body);
    const api::Changes headers =
        wish.changes.headers
            ? by_names(original.message->headers.value_or(rung::Table{}), *wish.changes.headers)
            : wish.changes;
    if (!headers.set.empty()) body["set_headers"] = Json::parse(headers_to_json(headers.set), nullptr, false);
    if (!headers.unset.empty()) body["unset_headers"] = headers.unset;
    return body;
  }

  Result<api::Edited> refused_edit(const Answer& answer, TaskId id) {
    using How = api::Edited::How;
    const std::string detail = answer.text("detail");
    auto row = queries_->find(id);
    if (!row) return tl::unexpected(row.error());
    const Task task = *row ? (*row)->task : Task{};
    switch (answer.status) {
      case 404:
        return api::Edited{How::no_such_task, task, std::string(kNoSuchTask)};
      case 412:
        return api::Edited{How::changed_since, task, std::string(kChangedMeanwhile)};
      case 413:
        return api::Edited{How::too_large, task, detail};
      case 400:
      case 403:
      case 409:
        return api::Edited{How::refused, task, detail};
      default:
        return tl::unexpected(client_->error_of(answer));
    }
  }

  const ApiClientPtr client_;
  const std::unique_ptr<TaskQueries> queries_;
};

}  // namespace

std::unique_ptr<TaskChanges> api_changes(const ApiClientPtr& client) {
  return std::make_unique<ApiChanges>(client);
}

}  // namespace rung::cli
