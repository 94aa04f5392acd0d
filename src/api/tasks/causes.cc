#include "src/api/tasks/causes.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/tasks/views.h"
#include "src/core/base/time.h"

namespace rung::api {
namespace {

constexpr std::int64_t kCountedByHeader = 10'000;  // tasks

tl::unexpected<Error> no_cause(const std::string& cause) {
  return tl::unexpected(Error{Error::Kind::not_found, "no such cause: " + cause});
}

}  // namespace

Result<Causes> read_causes(MysqlStore& store, CauseFilter filter) {
  const auto most = static_cast<std::size_t>(filter.limit);
  ++filter.limit;
  auto rows = store.causes(filter);
  if (!rows) return tl::unexpected(rows.error());
  Causes out{*std::move(rows), ""};
  if (out.rows.size() > most) {
    out.rows.resize(most);
    out.next = std::to_string(filter.offset + static_cast<std::int64_t>(most));
  }
  return out;
}

Result<Json> read_cause(MysqlStore& store, const std::string& cause,
                        const std::vector<std::string>& index_headers) {
  if (!is_cause_id(cause)) return no_cause(cause);
  const auto rows = store.causes({.id = cause});
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return no_cause(cause);
  Json json = to_json(rows->front());
  json["by_header"] = Json::array();
  Filter open;
  open.cause = cause;
  open.states = {State::scheduled, State::publishing, State::awaiting, State::parked};
  for (const std::string& header : index_headers) {
    const CountBy by{"header", header};
    const auto counts = store.count_by(open, by, kCountedByHeader);
    if (!counts) return tl::unexpected(counts.error());
    json["by_header"].push_back(to_json(*counts, by, kCountedByHeader));
  }
  return json;
}

Result<CauseRow> change_cause(MysqlStore& store, const std::string& cause, const CauseTriage& triage,
                              const std::string& who) {
  if (!is_cause_id(cause)) return no_cause(cause);
  auto changed = store.triage(cause, triage, who);
  if (!changed) return tl::unexpected(changed.error());
  if (!*changed) return no_cause(cause);
  return **std::move(changed);
}

bool is_cause_id(std::string_view text) {
  return text.size() == 12 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string advice(std::string_view error_type, std::string_view sample) {
  if (!error_type.empty() || !sample.starts_with("dead-lettered: rejected")) return {};
  return "the consumer rejects without a reason. To see the reason here, publish the message to rung.failed "
         "with the headers retry-error and retry-error-type instead of rejecting it: docs/causes.md";
}

Json to_json(const CauseRow& cause) {
  return {{"cause_id", cause.id},
          {"queue", text_or_null(cause.queue)},
          {"error_type", text_or_null(cause.error_type)},
          {"sample", text_or_null(cause.sample)},
          {"first_seen", to_rfc3339(cause.first_seen)},
          {"last_seen", to_rfc3339(cause.last_seen)},
          {"scheduled", cause.scheduled},
          {"parked", cause.parked},
          {"succeeded", cause.succeeded},
          {"total", cause.total},
          {"last_hour", cause.last_hour},
          {"trend", cause.trend},
          {"state", to_word(cause.state)},
          {"owner", text_or_null(cause.owner)},
          {"note", text_or_null(cause.note)},
          {"link", text_or_null(cause.link)},
          {"worse_at", time_or_null(cause.worse_at)}};
}

Json to_json(const Causes& causes) {
  Json list = Json::array();
  for (const CauseRow& cause : causes.rows) list.push_back(to_json(cause));
  return {{"causes", std::move(list)}, {"next", text_or_null(causes.next)}};
}

}  // namespace rung::api
