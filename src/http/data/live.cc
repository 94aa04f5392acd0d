#include "src/http/data/live.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/queues/gates.h"
#include "src/api/stats/activity.h"
#include "src/api/stats/stats.h"
#include "src/api/tasks/pages.h"
#include "src/core/base/rfc3339.h"
#include "src/io/log.h"

namespace rung::http {
namespace {

using api::Json;

constexpr Ms kPing{15'000};
constexpr Ms kLongest{std::chrono::minutes{10}};
// Reading the overview takes at most this share of the time: with a million tasks it is read less often.
constexpr int kOverviewShare = 10;
constexpr Ms kActivityEvery{5000};  // as often as instances add to it (src/bridge/upkeep)
constexpr Ms kActivityPast{120'000};
constexpr Ms kMaxOverdue{60'000};
constexpr std::size_t kMostQueues = 200;
constexpr Ms kOverviewCounts{100};  // ended tasks, for an overview

Result<Json> read_overview(MysqlStore& store, api::TaskCounter& counter) {
  const auto now = store.now();
  if (!now) return tl::unexpected(now.error());
  const auto stats = api::read_stats(store, counter, {*now, kMaxOverdue, kOverviewCounts});
  if (!stats) return tl::unexpected(stats.error());
  auto gates = api::read_queues(store);
  if (!gates) return tl::unexpected(gates.error());
  Json json = api::to_json(*stats, *now);
  json.update(api::overview_queues(*std::move(gates), kMostQueues));
  json["now"] = to_rfc3339(*now);
  return json;
}

// Where a viewer is: "audit-event".
std::string position(const LiveQuestion& question) {
  return std::to_string(question.after_audit) + "-" + std::to_string(question.after_event);
}

bool concerns_causes(std::string_view kind) { return kind.starts_with("cause"); }

LiveChanges changes_between(const LiveAnswer& before, const LiveAnswer& now) {
  LiveChanges out;
  for (const TaskId task : now.changed_by_hand) {
    if (task.value != 0) out.tasks.insert(task.value);
    out.queues = out.queues || task.value == 0;
  }
  for (const std::string& kind : now.event_kinds) {
    out.causes = out.causes || concerns_causes(kind);
    out.queues = out.queues || !concerns_causes(kind);
  }
  for (const auto& [id, done] : now.bulks) {
    const auto was = before.bulks.find(id);
    if (was == before.bulks.end() || was->second != done) out.bulks.insert(id);
  }
  for (const auto& [id, done] : before.bulks) {
    if (!now.bulks.contains(id)) out.bulks.insert(id);  // it has ended
  }
  out.new_tasks = now.newest_task != before.newest_task;
  out.more = now.changed_by_hand.size() > LiveAnswer::kMost || now.event_kinds.size() > LiveAnswer::kMost;
  return out;
}

}  // namespace

std::shared_ptr<EventStream> LiveFeed::open(const std::string& viewer, std::vector<TaskId> watched,
                                            std::string_view resumes_at) {
  const auto view = std::make_shared<LiveView>(viewer, std::move(watched), clock_.boot() + kLongest);
  // What it has missed is not kept: it has to read anew what it shows.
  if (!resumes_at.empty()) view->changes({.more = true}, {}, std::string(resumes_at.substr(0, 64)));
  const std::lock_guard lock(mutex_);
  std::erase_if(views_, [](const auto& one) { return one.expired(); });
  const auto own = std::ranges::count_if(views_, [&](const auto& one) {
    const auto other = one.lock();
    return other != nullptr && other->viewer() == viewer;
  });
  if (stopping_ || views_.size() >= most_ || 4 * static_cast<std::size_t>(own) >= 3 * most_) return nullptr;
  views_.push_back(view);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  wanted_.notify_all();
  return view;
}

std::size_t LiveFeed::viewers() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(views_, [](const auto& one) { return !one.expired(); }));
}

void LiveFeed::drain() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wanted_.notify_all();
}

bool LiveFeed::stop(Ms most) {
  drain();
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) return true;
  if (!wanted_.wait_for(lock, most, [this] { return ended_; })) return false;
  lock.unlock();
  thread_.join();
  return true;
}

bool LiveFeed::is_stopping() {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

LiveFeed::Views LiveFeed::current() {
  Views out;
  const std::lock_guard lock(mutex_);
  for (const auto& one : views_) {
    if (auto view = one.lock()) out.push_back(std::move(view));
  }
  return out;
}

// Nobody has what it remembers. That a count takes long is still true.
void LiveFeed::forget() {
  const BootMs overview_at = progress_.overview_at;
  progress_ = {};
  progress_.overview_at = overview_at;
}

void LiveFeed::run() {
  BootMs ping_at = clock_.boot() + kPing;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      std::erase_if(views_, [](const auto& one) { return one.expired(); });
      if (views_.empty()) forget();
      wanted_.wait(lock, [&] { return stopping_ || !views_.empty(); });
      if (stopping_) break;
    }
    const Views views = current();
    try {
      tick(views);
    } catch (const std::exception& e) {  // as in a handler: it must not end the process
      log::error("events could not be told", {{"what", e.what()}});
    }
    const BootMs now = clock_.boot();
    const bool pings = now >= ping_at;
    if (pings) ping_at = now + kPing;
    for (const auto& view : views) {
      if (now >= view->until()) view->end();
      if (pings) view->ping();
    }
    std::unique_lock lock(mutex_);
    wanted_.wait_for(lock, kEvery, [&] { return stopping_; });
    if (stopping_) break;
  }
  for (const auto& view : current()) view->end();
  const std::lock_guard lock(mutex_);
  ended_ = true;
  wanted_.notify_all();
}

void LiveFeed::tick(const Views& views) {
  std::set<std::int64_t> watched;
  for (const auto& view : views) {
    for (const TaskId id : view->watched()) watched.insert(id.value);
  }
  progress_.question.watched.clear();
  for (const std::int64_t id : watched) {
    if (progress_.question.watched.size() < LiveQuestion::kMostWatched)
      progress_.question.watched.push_back({id});
  }
  tell_changes(views);
  if (!is_stopping()) tell_overview(views);
  if (!is_stopping()) tell_activity(views);
}

void LiveFeed::tell_changes(const Views& views) {
  auto answer = reads_.run([&](MysqlStore& store) { return store.live(progress_.question); });
  const std::string trouble = answer ? "" : answer.error().message;
  const bool changed = std::exchange(progress_.trouble, trouble) != trouble;
  const std::string json = api::dump({{"detail", api::text_or_null(trouble)}});
  for (const auto& view : views) {
    const bool is_new = view->is_new();
    if (changed || (is_new && !trouble.empty())) view->trouble(json, position(progress_.question));
  }
  if (!answer) return;
  progress_.question.after_audit = answer->newest_audit;
  progress_.question.after_event = answer->newest_event;
  const LiveAnswer before = std::exchange(progress_.last, *answer);
  if (!std::exchange(progress_.begun, true)) return;
  std::set<std::int64_t> watched;
  for (const auto& [id, version] : answer->versions) {
    const auto was = before.versions.find(id);
    if (was != before.versions.end() && was->second != version) watched.insert(id.value);
  }
  const LiveChanges changes = changes_between(before, *answer);
  for (const auto& view : views) view->changes(changes, watched, position(progress_.question));
}

void LiveFeed::tell_overview(const Views& views) {
  const BootMs began = clock_.boot();
  bool changed = false;
  if (began >= progress_.overview_at) {
    auto overview = reads_.run([&](MysqlStore& store) { return read_overview(store, counter_); });
    // Also after an error: a count that takes too long must not be repeated at once.
    progress_.overview_at = clock_.boot() + std::max(kEvery, (clock_.boot() - began) * kOverviewShare);
    if (overview) {
      // These two alone are no news.
      const Json now = std::exchange((*overview)["now"], Json());
      const Json counted = std::exchange((*overview)["ended_counted_at"], Json());
      const std::string text = api::dump(*overview);
      changed = std::exchange(progress_.overview, text) != text;
      (*overview)["now"] = now;
      (*overview)["ended_counted_at"] = counted;
      progress_.whole = api::dump(*overview);
    }
  }
  if (progress_.whole.empty()) return;  // what went wrong is told by `trouble`
  for (const auto& view : views) {
    if (changed || view->wants_overview()) view->overview(progress_.whole, position(progress_.question));
  }
}

void LiveFeed::tell_activity(const Views& views) {
  if (clock_.boot() < progress_.activity_at) return;
  progress_.activity_at = clock_.boot() + kActivityEvery;
  const auto activity = reads_.run([](MysqlStore& store) -> Result<api::Activity> {
    const auto now = store.now();
    if (!now) return tl::unexpected(now.error());
    return api::read_activity(store, {.from = *now - kActivityPast, .until = *now}, *now);
  });
  if (!activity) return;  // the next tick tells why
  const std::string json = api::dump(api::to_json(*activity));
  for (const auto& view : views) view->activity(json, position(progress_.question));
}

}  // namespace rung::http
