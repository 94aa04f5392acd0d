// POST /v1/tasks/{id}/cancel, /discard, /reschedule, /fire, /finish, /redrive: decide() says whether the
// task's state allows it.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <variant>
#include <vector>

#include "src/api/json/fields.h"
#include "src/api/tasks/views.h"
#include "src/http/access/access.h"
#include "src/http/handlers/context.h"

namespace rung::http {
namespace {

constexpr std::int64_t kMostAttempt = 1'000'000'000;

Response tell(Context& context, const Call& call, const Decision& decision) {
  const std::string& path = call.request.path;
  if (decision.verdict == Decision::Verdict::refused) {
    if (decision.reason == kNoSuchTask)
      return problem(404, "no task has the id " + api::shown(call.id), path);
    const TaskRow row = context.named(decision.task);
    const Json more = {{"state", to_word(row.task.state)}, {"version", row.task.version}};
    if (decision.reason == kNotTheirQueue)
      return problem(403, outside_queues(call.person, row.task.queue), path, outside_members(row.task.queue));
    if (decision.reason == kChangedMeanwhile)
      return problem(
          412,
          "the task has changed since you read it: its version is now " + std::to_string(row.task.version),
          path, more);
    return problem(409, decision.reason, path, more);
  }
  Json json = context.changed(decision.task);
  if (decision.verdict == Decision::Verdict::stale) json["unchanged_because"] = decision.reason;
  Response response = answer(200, json);
  response.headers.emplace_back("ETag", api::etag(decision.task));
  return response;
}

Metrics::Changed metric_of(Decision::Verdict verdict) {
  switch (verdict) {
    case Decision::Verdict::applied:
      return Metrics::Changed::applied;
    case Decision::Verdict::stale:
      return Metrics::Changed::unchanged;
    case Decision::Verdict::refused:
      break;
  }
  return Metrics::Changed::refused;
}

// `read(fields, reason)`: turns the body's fields into the event.
template <typename Read>
Response change(Context& context, const Call& call, const Read& read) {
  const std::string& path = call.request.path;
  const auto id = TaskId::parse(call.id);
  if (!id) return no_such_task(call);
  const auto version = version_of(context, call);
  if (!version) return problem(400, version.error().message, path);
  FieldErrors errors;
  api::Fields fields(*call.json, "", errors);
  const std::string reason = fields.text("reason", kErrorBytes).value_or("");
  const Happening what = read(fields, reason);
  fields.finish();
  if (!errors.empty()) return problem(errors, path);
  const auto* redrive = std::get_if<event::Redrive>(&what);
  if (redrive != nullptr && redrive->elsewhere.is_set()) {
    if (auto no = refuse_target(call.person, redrive->elsewhere, path)) return *std::move(no);
  }
  const std::string_view name = name_of(what);
  auto decisions = context.writes.change({{*id, what, call.by_hand(*version, reason)}});
  if (!decisions || decisions->empty()) {
    context.metrics.changed(name, Metrics::Changed::failed);
    return problem(decisions ? Error{Error::Kind::transient, "no answer"} : decisions.error(), path);
  }
  context.metrics.changed(name, metric_of(decisions->front().verdict));
  return tell(context, call, decisions->front());
}

}  // namespace

// RFC 9110, 13.1.1: a list of ETags, of which a weak one never matches, nor one that is none of ours.
Result<std::optional<std::uint32_t>> version_of(Context& context, const Call& call) {
  if (!call.request.if_match || *call.request.if_match == "*") return std::nullopt;
  std::vector<std::uint32_t> versions;
  for (const std::string& word : api::split_words(*call.request.if_match)) {
    std::string_view tag = word;
    tag.remove_prefix(std::min(tag.find_first_not_of(" \t"), tag.size()));
    tag = tag.substr(0, tag.find_last_not_of(" \t") + 1);
    const bool weak = tag.starts_with("W/");
    if (weak) tag.remove_prefix(2);
    if (tag.size() < 2 || tag.find('"') != 0 || tag.find('"', 1) != tag.size() - 1)
      return permanent("If-Match must be the ETag of an earlier response, in quotes: \"3\"");
    std::uint32_t version = 0;
    const auto [end, error] = std::from_chars(tag.data() + 1, tag.data() + tag.size(), version);
    if (!weak && error == std::errc{} && end == tag.data() + tag.size() - 1) versions.push_back(version);
  }
  if (versions.size() == 1) return versions.front();
  const auto row = context.reads.run(
      [&](MysqlStore& store) { return store.find(TaskId::parse(call.id).value_or(TaskId{})); });
  const bool known = row && *row && std::ranges::count(versions, (*row)->task.version) > 0;
  return known ? (*row)->task.version : UINT32_MAX;  // which no task has: 412
}

Response cancel_task(Context& context, const Call& call) {
  return change(context, call, [](api::Fields&, const std::string&) { return event::Cancel{}; });
}

Response discard_task(Context& context, const Call& call) {
  return change(context, call, [](api::Fields&, const std::string&) { return event::Discard{}; });
}

Response reschedule_task(Context& context, const Call& call) {
  return change(context, call, [](api::Fields& fields, const std::string&) {
    event::Reschedule what;
    what.at = fields.time("at");
    what.delay = fields.duration("delay", Ms{0}).value_or(Ms{0});
    if (fields.has("at") == fields.has("delay"))
      fields.wrong("delay",
                   "say when, one of the two: \"delay\": \"30m\", or \"at\": \"2026-11-21T17:05:00Z\"");
    return what;
  });
}

Response fire_task(Context& context, const Call& call) {
  return change(context, call, [](api::Fields&, const std::string&) { return event::Fire{}; });
}

Response finish_task(Context& context, const Call& call) {
  return change(context, call, [](api::Fields& fields, const std::string&) {
    event::Finish what{};
    const std::string result = fields.text("result", 20).value_or("");
    what.succeeded = result == "succeeded";
    if (!what.succeeded && result != "failed") fields.wrong("result", "must be \"succeeded\" or \"failed\"");
    what.error = fields.text("error", kErrorBytes).value_or("");
    if (what.succeeded && !what.error.empty())
      fields.wrong("error", "only valid with \"result\": \"failed\"");
    what.executor = fields.name("executor").value_or("");
    what.attempt = static_cast<int>(fields.integer("attempt", 1, kMostAttempt).value_or(0));
    what.even_reported = fields.flag("even_reported").value_or(false);
    if (what.succeeded && what.even_reported)
      fields.wrong("even_reported", "only valid with \"result\": \"failed\"");
    return what;
  });
}

Response redrive_task(Context& context, const Call& call) {
  return change(context, call, [rules = context.rules()](api::Fields& fields, const std::string&) {
    event::Redrive what{fields.target(rules->targets())};
    what.even_reported = fields.flag("even_reported").value_or(false);
    what.even_replaced = fields.flag("even_replaced").value_or(false);
    return what;
  });
}

}  // namespace rung::http
