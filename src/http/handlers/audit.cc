// /v1/audit: the changes by hand of all tasks and queues.
#include "src/api/tasks/audit.h"

#include <nlohmann/json.hpp>

#include "src/http/handlers/context.h"
#include "src/http/request/problem.h"
#include "src/http/request/query.h"

namespace rung::http {
namespace {

AuditFilter audit_filter_of(const Call& call, FieldErrors& errors) {
  AuditFilter filter;
  Pairs query = call.request.query;
  const api::Page page = take_page(query, Cursor::text, errors);
  filter.limit = page.limit;
  if (!page.cursor.empty()) {
    filter.after = api::audit_place_of(page.cursor);
    if (!filter.after) errors.push_back({"cursor", "must be the `next_cursor` of the previous page"});
  }
  filter.queue = take_text(query, "queue", errors);
  filter.what = take_text(query, "action", errors);
  if (!filter.what.empty() && !api::is_audit_action(filter.what))
    errors.push_back({"action", "must be " + api::audit_action_words()});
  filter.who = take_text(query, "who", errors);
  filter.since = take_time(query, "since", errors);
  filter.until = take_time(query, "until", errors);
  refuse_rest(query, errors);
  return filter;
}

}  // namespace

Response list_audit(Context& context, const Call& call) {
  FieldErrors errors;
  const AuditFilter filter = audit_filter_of(call, errors);
  if (!errors.empty()) return problem(errors, call.request.path);
  const auto page = context.reads.run([&](QueryStore& store) { return store.audit_log(filter); });
  return page ? answer(200, api::to_json(*page)) : problem(page.error(), call.request.path);
}

}  // namespace rung::http
