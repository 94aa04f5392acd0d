// The service by HTTP.

#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/api/json/reading.h"
#include "src/api/queues/gates.h"
#include "src/cli/service/api_client.h"
#include "src/core/base/hex.h"
#include "src/core/base/rfc3339.h"

namespace rung::cli {
namespace {

class ApiSystem final : public SystemService {
 public:
  explicit ApiSystem(ApiClientPtr client) : client_(std::move(client)) {}

  Result<api::Causes> causes(const CauseFilter& filter) override {
    std::string states;
    for (const CauseState state : filter.states)
      states.append(states.empty() ? "" : ",").append(to_word(state));
    const std::string path =
        with_query("/v1/causes", {{"queue", filter.queue},
                                  {"state", states},
                                  {"with_tasks", filter.with_tasks ? "true" : ""},
                                  {"since", filter.since ? to_rfc3339(*filter.since) : ""},
                                  {"limit", std::to_string(filter.limit)},
                                  {"cursor", std::to_string(filter.offset)}});
    return read_answer(*client_, client_->get(path), api::causes_from_json);
  }

  Result<Json> cause(const std::string& cause) override {
    return client_->get("/v1/causes/" + percent_encode(cause));
  }

  Result<CauseRow> triage(const std::string& cause, const CauseTriage& change) override {
    Json body = Json::object();
    if (change.state) body["state"] = to_word(*change.state);
    if (change.owner) body["owner"] = *change.owner;
    if (change.note) body["note"] = *change.note;
    if (change.link) body["link"] = *change.link;
    return read_answer(*client_, client_->post("/v1/causes/" + percent_encode(cause), body),
                       api::cause_from_json);
  }

  Result<std::string> my_name() override {
    return read_answer(*client_, client_->get("/v1/you"), [](const Json& json) -> Result<std::string> {
      api::Reading read(json, "you");
      std::string name = read.text("name");
      if (name.empty()) read.wrong("name");
      return read.done(std::move(name));
    });
  }

  Result<std::vector<QueueGate>> gates() override {
    return read_rows(*client_, "/v1/queues", {}, "queues", api::gate_from_json);
  }

  Result<Pause> pause(const api::PauseRequest& request) override {
    Json body = Json::object();
    if (request.lasts) body["for"] = request.lasts->count();
    if (request.until) body["until"] = to_rfc3339(*request.until);
    if (!request.reason.empty()) body["reason"] = request.reason;
    return read_answer(*client_, change(request.queue, "/pause", body), api::pause_from_json);
  }

  Result<api::ResumedQueue> resume(const api::ResumeRequest& request) override {
    Json body = Json::object();
    if (!request.reason.empty()) body["reason"] = request.reason;
    if (request.probe) body["probe"] = true;
    return read_answer(*client_, change(request.queue, "/resume", body), api::resumed_from_json);
  }

  Result<api::Nodes> nodes(EpochMs now, bool all) override {
    api::Nodes nodes;
    const auto add = [&](const Json& page) -> Result<std::size_t> {
      const std::size_t before = nodes.rows.size();
      if (auto added = api::add_nodes(page, now, nodes); !added) return tl::unexpected(added.error());
      return nodes.rows.size() - before;
    };
    const Parameters parameters = {{"all", all ? "true" : ""}};
    if (auto read = read_pages(*client_, "/v1/nodes", parameters, add); !read)
      return tl::unexpected(read.error());
    api::done_nodes(nodes, now);
    return nodes;
  }

  Result<api::Stats> stats(EpochMs now, Ms max_overdue) override {
    const std::string path = with_query("/v1/stats", {{"max_overdue", levels::format_duration(max_overdue)}});
    return read_answer(*client_, client_->get(path),
                       [&](const Json& json) { return api::stats_from_json(json, now); });
  }

 private:
  Result<Json> change(const std::string& queue, const char* action, const Json& body) {
    // A path cannot name them all.
    if (std::string why = api::wrong_queue_name(queue); !why.empty()) return permanent(std::move(why));
    return client_->post("/v1/queues/" + percent_encode(queue) + action, body);
  }

  const ApiClientPtr client_;
};

}  // namespace

Result<Service> api_service(const ApiOptions& options) {
  auto client = ApiClient::open(options);
  if (!client) return tl::unexpected(client.error());
  Service service;
  service.tasks = api_queries(*client);
  service.changes = api_changes(*client);
  service.bulks = api_bulks(*client);
  service.system = std::make_unique<ApiSystem>(*client);
  const auto now = service.tasks->now();
  if (!now && now.error().kind == Error::Kind::not_found)
    return permanent((*client)->name() + " has no /v1/now: it is older than this program");
  if (!now) return tl::unexpected(now.error());
  return service;
}

}  // namespace rung::cli
