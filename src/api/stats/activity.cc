#include "src/api/stats/activity.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

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

Result<Activity> read_activity(MysqlStore& store, const ActivityAsked& asked, EpochMs now) {
  Activity activity;
  const auto range = activity_range(asked, now);
  if (!range) return activity;
  const auto there = store.activity(*range);
  if (!there) return tl::unexpected(there.error());
  activity.step = range->step;
  auto next = there->begin();
  for (EpochMs at = range->from; at < range->until; at = at + range->step) {
    const bool has = next != there->end() && next->at == at;
    activity.points.push_back(has ? *next++ : ActivityPoint{at, {}});
  }
  return activity;
}

std::optional<std::string> counted_with(const RuleBook& rules, const std::string& queue) {
  const bool own = queue.empty() || queue == kAllQueues || rules.queues().contains(queue) ||
                   rules.pattern_of(queue) != nullptr;
  return own ? std::nullopt : std::optional<std::string>(kOtherQueues);
}

Json to_json(const Activity& activity) {
  Json points = Json::array();
  for (const auto& [at, counts] : activity.points) {
    points.push_back({{"at", to_rfc3339(at)},
                      {"failed", counts.failed},
                      {"retried", counts.retried},
                      {"succeeded", counts.succeeded}});
  }
  return {{"step_s", std::chrono::duration_cast<std::chrono::seconds>(activity.step).count()},
          {"points", std::move(points)}};
}

}  // namespace rung::api
