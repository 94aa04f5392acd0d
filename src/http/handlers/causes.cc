// /v1/causes: what fails, why, and what people have said about it.
#include "src/api/tasks/causes.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "src/api/json/fields.h"
#include "src/http/handlers/context.h"

namespace rung::http {
namespace {

constexpr std::string_view kCauseStates = "must be new, known, working, ignored, resolved or regressed";

CauseFilter cause_filter_of(const Query& query) {
  CauseFilter filter;
  const api::Page page = query.page();
  filter.limit = page.limit;
  filter.offset = api::id_of_cursor(page.cursor).value_or(0);
  filter.with_tasks = query.flag("with_tasks");
  filter.since = query.time("since");
  filter.queue = query.text("queue");
  for (const std::string& word : query.words("state")) filter.states.push_back(*cause_state_from(word));
  return filter;
}

Result<Json> find_cause(Context& context, const Call& call) {
  return context.reads.run(
      [&](MysqlStore& store) { return api::read_cause(store, call.id, context.index_headers); });
}

}  // namespace

Response list_causes(Context& context, const Call& call) {
  const CauseFilter filter = cause_filter_of(call.query);
  const auto causes = context.reads.run([&](MysqlStore& store) { return api::read_causes(store, filter); });
  return causes ? answer(200, api::to_json(*causes))
                : filter_problem({.queue = filter.queue}, causes.error(), call.request.path);
}

Response show_cause(Context& context, const Call& call) {
  const auto cause = find_cause(context, call);
  return cause ? answer(200, *cause) : problem(cause.error(), call.request.path);
}

// It never changes.
Result<std::string> queue_of_cause(Context& context, const Call& call) {
  const auto cause = find_cause(context, call);
  if (!cause) return tl::unexpected(cause.error());
  return cause->value("queue", "");
}

Response change_cause(Context& context, const Call& call) {
  FieldErrors errors;
  api::Fields fields(*call.json, "", errors);
  CauseTriage triage;
  if (const auto state = fields.text("state", api::kNameBytes)) {
    triage.state = cause_state_from(*state);
    if (!triage.state) fields.wrong("state", std::string(kCauseStates));
  }
  triage.owner = fields.text("owner", kCauseOwnerBytes);
  triage.note = fields.text("note", kCauseNoteBytes);
  triage.link = fields.text("link", kCauseLinkBytes);
  fields.finish();
  if (errors.empty() && !triage.state && !triage.owner && !triage.note && !triage.link)
    fields.wrong("state", "nothing to change: give state, owner, note or link");
  if (!errors.empty()) return problem(errors, call.request.path);
  const auto cause = context.reads.run_once(
      [&](MysqlStore& store) { return api::change_cause(store, call.id, triage, call.who); });
  return cause ? answer(200, api::to_json(*cause)) : problem(cause.error(), call.request.path);
}

}  // namespace rung::http
