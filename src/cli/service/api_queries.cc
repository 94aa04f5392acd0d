// Reads of tasks over HTTP.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "src/api/json/reading.h"
#include "src/api/queues/gates.h"
#include "src/api/tasks/audit.h"
#include "src/api/tasks/filter.h"
#include "src/api/tasks/pages.h"
#include "src/api/tasks/views.h"
#include "src/cli/service/api_client.h"
#include "src/core/base/rfc3339.h"
#include "src/core/base/url.h"

namespace rung::cli {
namespace {

std::string word_of(Filter::Order order) {
  return order == Filter::Order::newest ? "newest" : order == Filter::Order::oldest ? "oldest" : "due";
}

Parameters conditions_of(const Filter& filter) {
  Parameters parameters;
  const Json json = api::filter_json(filter);
  for (const auto& [name, value] : json.items()) parameters.emplace_back(name, value.get<std::string>());
  return parameters;
}

class ApiQueries final : public TaskQueries {
 public:
  explicit ApiQueries(ApiClientPtr client) : client_(std::move(client)) {}

  Result<EpochMs> now() override {
    return read_answer(*client_, client_->get("/v1/now"), [](const Json& json) -> Result<EpochMs> {
      api::Reading read(json, "now");
      const auto now = read.time("now");
      if (!now) read.wrong("now");
      return read.done(now.value_or(EpochMs{}));
    });
  }

  Result<std::vector<TaskRow>> list(const Filter& filter) override {
    // The place where the list begins is a cursor of the first page.
    Parameters parameters = conditions_of(filter);
    parameters.emplace_back("sort", word_of(filter.order));
    return read_rows(*client_, "/v1/tasks", parameters, "tasks", api::task_from_json,
                     static_cast<std::size_t>(filter.limit), place_of(filter));
  }

  Result<Counted> count(const Filter& filter, const std::optional<CountBy>& by) override {
    Parameters parameters = conditions_of(filter);
    parameters.emplace_back("count", "true");
    if (by) parameters.emplace_back("by", by->str());
    auto counts =
        read_answer(*client_, client_->get(with_query("/v1/tasks", parameters)), api::counts_from_json);
    if (!counts) return tl::unexpected(counts.error());
    return Counted{*std::move(counts), api::kMostCounted};
  }

  Result<std::optional<TaskRow>> find(TaskId id) override {
    auto json = client_->get(path_of(id));
    if (!json && json.error().kind == Error::Kind::not_found) return std::nullopt;
    auto row = read_answer(*client_, json, api::task_from_json);
    if (!row) return tl::unexpected(row.error());
    return *std::move(row);
  }

  Result<Silence> silence_of(const Task& task) override {
    if (task.silence) return *task.silence;
    return read_answer(*client_, client_->get(path_of(task.id)), [](const Json& json) -> Result<Silence> {
      api::Reading read(json, "task");
      const auto silence = read.silence("silence");
      if (!silence) read.wrong("silence");
      return read.done(silence.value_or(Silence{}));
    });
  }

  Result<std::optional<QueueGate>> holding_gate(const Task& task) override {
    return read_answer(*client_, client_->get(path_of(task.id)),
                       [](const Json& json) -> Result<std::optional<QueueGate>> {
                         api::Reading read(json, "task");
                         if (read.part("held").is_null()) return read.done(std::optional<QueueGate>());
                         auto gate = api::gate_from_json(read.part("held"));
                         if (!gate) return tl::unexpected(gate.error());
                         return std::optional(*std::move(gate));
                       });
  }

  Result<std::vector<TaskId>> children(const Task& task) override {
    return read_answer(*client_, client_->get(path_of(task.id)), api::children_from_json);
  }

  Result<std::vector<AttemptRow>> history(TaskId id) override {
    return read_rows(*client_, path_of(id) + "/history", {}, "attempts", api::attempt_from_json);
  }

  Result<std::vector<AuditRow>> audit(TaskId id) override {
    return read_rows(*client_, path_of(id) + "/audit", {}, "changes", api::audit_from_json);
  }

  Result<AuditPage> audit_log(const AuditFilter& filter) override {
    const auto time = [](const std::optional<EpochMs>& at) { return at ? to_rfc3339(*at) : ""; };
    const Parameters parameters{{"queue", filter.queue},
                                {"action", filter.what},
                                {"who", filter.who},
                                {"bulk", filter.bulk == 0 ? "" : std::to_string(filter.bulk)},
                                {"since", time(filter.since)},
                                {"until", time(filter.until)},
                                {"limit", std::to_string(filter.limit)},
                                {"cursor", filter.after ? api::cursor_of(*filter.after) : ""}};
    return read_answer(*client_, client_->get(with_query("/v1/audit", parameters)),
                       api::audit_page_from_json);
  }

  Result<std::string> origin(TaskId id) override {
    return read_answer(*client_, client_->get(path_of(id) + "/origin"),
                       [](const Json& json) -> Result<std::string> {
                         api::Reading read(json, "origin");
                         const Json& origin = read.part("origin");
                         return read.done(origin.is_null() ? std::string() : api::dump(origin));
                       });
  }

  Result<MessagePtr> message(TaskId id) override {
    const auto answer = client_->call_patiently("GET", path_of(id) + "/message");
    if (!answer) return tl::unexpected(answer.error());
    if (answer->status == 404) return MessagePtr();
    // Of a queue that the token may not act on.
    if (answer->status == 403) return tl::unexpected(Error{Error::Kind::refused, answer->text("detail")});
    if (!answer->good()) return tl::unexpected(client_->error_of(*answer));
    return read_answer(*client_, answer->json, api::message_from_json);
  }

  std::string missing_right(const std::string& view) const override {
    // Role reader reads all but messages.
    return view == "retry_bodies"
               ? "properties, headers and body: they need a token with the role editor, for this queue"
               : view + ": it needs a token with the role reader";
  }
  std::string whose() const override { return "this token"; }

 private:
  static std::string path_of(TaskId id) { return "/v1/tasks/" + id.str(); }
  static std::string place_of(const Filter& filter) {
    if (!filter.after) return {};
    return filter.after->str() + (filter.after_due ? "." + std::to_string(filter.after_due->ms) : "");
  }

  const ApiClientPtr client_;
};

}  // namespace

std::unique_ptr<TaskQueries> api_queries(const ApiClientPtr& client) {
  return std::make_unique<ApiQueries>(client);
}

}  // namespace rung::cli
