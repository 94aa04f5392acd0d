// Bulks over HTTP: a sidecar carries them out, and this process watches.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/tasks/bulks.h"
#include "src/api/tasks/filter.h"
#include "src/api/tasks/pages.h"
#include "src/api/tasks/views.h"
#include "src/bridge/changes/bulk.h"
#include "src/cli/service/api_client.h"
#include "src/cli/service/retry.h"

namespace rung::cli {
namespace {

constexpr Ms kLookInterval{300};

std::string path_of(std::int64_t id) { return "/v1/bulks/" + std::to_string(id); }

Json body_of(const NewBulk& asked) {
  Json body = {{"action", to_word(asked.action)}, {"filter", api::filter_json(asked.filter)}};
  if (!asked.reason.empty()) body["reason"] = asked.reason;
  if (asked.elsewhere.is_set()) add_target(asked.elsewhere, body["elsewhere"]);
  if (asked.even_reported) body["even_reported"] = true;
  if (asked.rate > 0) body["rate"] = asked.rate;
  if (asked.limit > 0) body["limit"] = asked.limit;
  if (asked.care.canary > 0) body["canary"] = asked.care.canary;
  if (asked.care.watch) body["watch"] = asked.care.watch->count();
  if (asked.care.ramp) body["ramp"] = true;
  if (asked.care.stop_above) body["stop_on_failures"] = api::percent_text(*asked.care.stop_above);
  return body;
}

class WatchedRun final : public BulkRun {
 public:
  WatchedRun(ApiClientPtr client, Bulk bulk) : BulkRun(std::move(bulk)), client_(std::move(client)) {}

  // One request: the caller waits, and looks whether it is interrupted.
  Result<Ms> step() override {
    const auto json = client_->good(client_->call("GET", path_of(bulk_.id)));
    if (!json && json.error().kind == Error::Kind::transient && ++failures_ < kMaxTries)
      return kFirstBackoff * (1 << (failures_ - 1));
    failures_ = 0;
    auto bulk = read_answer(*client_, json, api::bulk_from_json);
    if (!bulk) return tl::unexpected(bulk.error());
    const auto outcomes = read_answer(*client_, json, api::outcomes_from_json);
    if (!outcomes) return tl::unexpected(outcomes.error());
    see(*std::move(bulk));
    note(outcomes->value_or(api::Outcomes{}).counts, api::stage_of(bulk_) == Json("watching"));
    return bulk_.state == BulkState::running ? kLookInterval : Ms{0};
  }

 private:
  // What a careful redrive waits for.
  void note(const SentCounts& sent, bool waits) {
    if (waits && bulk_.state == BulkState::running && sent.failed == 0)
      news_ = bridge::waits_for(bulk_, {sent.sent, sent.succeeded, sent.unsent, sent.open, 0, sent.unread});
  }

  const ApiClientPtr client_;
  int failures_ = 0;  // in a row
};

class ApiBulks final : public BulkService {
 public:
  explicit ApiBulks(ApiClientPtr client) : client_(std::move(client)) {}

  std::string left_running(std::int64_t id) const override {
    return fmt::format("bulk {} goes on on the server: `rung bulk pause {}` pauses it", id, id);
  }
  // The instance says so when the bulk is created.
  std::string refused_target(const Target&) const override { return {}; }

  Result<Json> dry_run(const NewBulk& asked, const std::optional<CountBy>& by) override {
    Json body = body_of(asked);
    body["dry_run"] = true;
    if (by) body["by"] = by->str();
    return client_->post("/v1/bulks", body);
  }
  Result<Json> redrive_notes(const NewBulk& asked) override { return dry_run(asked, std::nullopt); }
  Result<Bulk> create(const NewBulk& asked) override {
    return read_answer(*client_, client_->post("/v1/bulks", body_of(asked)), api::bulk_from_json);
  }

  Result<std::optional<Bulk>> find(std::int64_t id) override {
    const auto json = client_->get(path_of(id));
    if (!json && json.error().kind == Error::Kind::not_found) return std::nullopt;
    auto bulk = read_answer(*client_, json, api::bulk_from_json);
    if (!bulk) return tl::unexpected(bulk.error());
    return *std::move(bulk);
  }

  Result<std::vector<Bulk>> list(int limit, std::optional<std::int64_t> below) override {
    return read_rows(*client_, "/v1/bulks", {}, "bulks", api::bulk_from_json, static_cast<std::size_t>(limit),
                     below ? std::to_string(*below) : "");
  }

  Result<std::optional<Bulk>> control(const BulkControl& control) override {
    Json body = Json::object();
    if (!control.reason.empty()) body["reason"] = control.reason;
    if (control.rate) body["rate"] = *control.rate;
    if (control.put_back) body["put_back"] = true;
    const char* action = control.state == BulkState::paused    ? "/pause"
                         : control.state == BulkState::aborted ? "/abort"
                                                               : "/resume";
    const auto answer = client_->call("POST", path_of(control.id) + action, &body);
    if (!answer) return tl::unexpected(answer.error());
    if (answer->status == 404) return std::nullopt;
    if (answer->status == 409) return find(control.id);  // it has ended
    if (!answer->good()) return tl::unexpected(client_->error_of(*answer));
    auto bulk = read_answer(*client_, answer->json, api::bulk_from_json);
    if (!bulk) return tl::unexpected(bulk.error());
    return *std::move(bulk);
  }

  Result<std::optional<api::Outcomes>> outcomes(const Bulk& bulk) override {
    return read_answer(*client_, client_->get(path_of(bulk.id)), api::outcomes_from_json);
  }
  std::unique_ptr<BulkRun> run(Bulk bulk) override {
    return std::make_unique<WatchedRun>(client_, std::move(bulk));
  }

 private:
  const ApiClientPtr client_;
};

}  // namespace

std::unique_ptr<BulkService> api_bulks(const ApiClientPtr& client) {
  return std::make_unique<ApiBulks>(client);
}

}  // namespace rung::cli
