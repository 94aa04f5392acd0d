#include "src/api/stats/activity.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "src/api/base/context.h"
#include "src/core/base/time.h"

namespace rung::api {
namespace {

// 30 minutes are enough for all that is kept.
constexpr std::array kSteps{1, 2, 5, 10, 15, 20, 30, 60};

std::int64_t steps_in(const ActivityRange& range) {
  return (range.until - range.from).count() / range.step.count();
}

}  // namespace

std::optional<ActivityRange> activity_range(const ActivityAsked& asked, EpochMs now) {
  // The minute of `now` is not over, and has its point all the same.
  const EpochMs oldest = bucket_of(now - kActivityKept, kActivityMinute) + kActivityMinute;
  const EpochMs from = std::max(asked.from, oldest), until = std::min(asked.until, now + Ms{1});
  if (from >= until) return std::nullopt;
  ActivityRange range;
  if (!asked.queue.empty()) range.queue = asked.queue;
  for (const int minutes : kSteps) {
    range.step = std::chrono::minutes{minutes};
    range.from = bucket_of(from, range.step);
    range.until = bucket_of(until - Ms{1}, range.step) + range.step;
    if (steps_in(range) <= kMostActivityPoints) break;
  }
  return range;
}

Json read_activity(MysqlStore& store, const ActivityAsked& asked, EpochMs now) {
  Ms step = kActivityMinute;
  Json points = Json::array();
  if (const auto range = activity_range(asked, now)) {
    step = range->step;
    const std::vector<ActivityPoint> there = need(store.activity(*range));
    auto next = there.begin();
    for (EpochMs at = range->from; at < range->until; at = at + step) {
      const bool has = next != there.end() && next->at == at;
      const ActivityCounts counts = has ? (next++)->counts : ActivityCounts{};
      points.push_back({{"at", to_rfc3339(at)},
                        {"failed", counts.failed},
                        {"retried", counts.retried},
                        {"succeeded", counts.succeeded}});
    }
  }
  return {{"step_s", std::chrono::duration_cast<std::chrono::seconds>(step).count()},
          {"points", std::move(points)}};
}

std::optional<std::string> counted_with(const RuleBook& rules, const std::string& queue) {
  const bool own = queue.empty() || queue == kAllQueues || rules.queues().contains(queue) ||
                   rules.pattern_of(queue) != nullptr;
  return own ? std::nullopt : std::optional<std::string>(kOtherQueues);
}

// `queue`, `from` and `to`: the last hour of all queues, if nothing is said.
Response show_activity(Context& context, const Call& call) {
  const std::string queue = call.query.text("queue");
  const auto from = call.query.time("from"), to = call.query.time("to");
  if (from && to && *from >= *to) return call.problem(FieldErrors{{"to", "must be later than from"}});
  Json json = context.reads.read([&](MysqlStore& store) {
    const EpochMs now = need(store.now()), until = to.value_or(now);
    return read_activity(store, {queue, from.value_or(until - kUsualActivity), until}, now);
  });
  json["counted_with"] = text_or_null(counted_with(*context.rules(), queue).value_or(""));
  return answer(200, json);
}

}  // namespace rung::api
