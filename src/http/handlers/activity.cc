// /v1/activity: what failed, was retried and succeeded, by minute.
#include "src/api/stats/activity.h"

#include <nlohmann/json.hpp>

#include "src/http/handlers/context.h"
#include "src/http/request/problem.h"
#include "src/http/request/query.h"

namespace rung::http {

// `queue`, `from` and `to`: the last hour of all queues, if nothing is said.
Response show_activity(Context& context, const Call& call) {
  FieldErrors errors;
  Pairs query = call.request.query;
  const std::string queue = take_text(query, "queue", errors);
  const auto from = take_time(query, "from", errors), to = take_time(query, "to", errors);
  refuse_rest(query, errors);
  if (from && to && *from >= *to) errors.push_back({"to", "must be later than from"});
  if (!errors.empty()) return problem(errors, call.request.path);
  auto activity = context.reads.run([&](Store& store) -> Result<Json> {
    const auto now = store.now();
    if (!now) return tl::unexpected(now.error());
    const EpochMs until = to.value_or(*now);
    const auto read =
        api::read_activity(store, {queue, from.value_or(until - api::kUsualActivity), until}, *now);
    if (!read) return tl::unexpected(read.error());
    return api::to_json(*read);
  });
  if (!activity) return problem(activity.error(), call.request.path);
  const auto with = api::counted_with(*context.rules(), queue);
  (*activity)["counted_with"] = with ? Json(*with) : Json();
  return answer(200, *activity);
}

}  // namespace rung::http
