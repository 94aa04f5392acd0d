#include "src/http/handlers/live.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/base/json.h"
#include "src/io/log.h"

namespace rung::http {
namespace {

using api::Json;

constexpr Ms kPing{15'000};
constexpr Ms kLongest{std::chrono::minutes{10}};

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

std::shared_ptr<api::EventStream> LiveFeed::open(const std::string& viewer, std::vector<TaskId> watched,
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

LiveFeed::Views LiveFeed::current() {
  Views out;
  const std::lock_guard lock(mutex_);
  for (const auto& one : views_) {
    if (auto view = one.lock()) out.push_back(std::move(view));
  }
  return out;
}

void LiveFeed::run() {
  BootMs ping_at = clock_.boot() + kPing;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      std::erase_if(views_, [](const auto& one) { return one.expired(); });
      if (views_.empty()) progress_ = {};
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
      if (pings) view->ping(position(progress_.question));
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
}

void LiveFeed::tell_changes(const Views& views) {
  auto answer = reads_.run([&](MysqlStore& store) { return store.live(progress_.question); });
  const std::string trouble = answer ? "" : answer.error().message;
  const bool changed = std::exchange(progress_.trouble, trouble) != trouble;
  const std::string json = api::dump({{"detail", api::text_or_null(trouble)}});
  if (answer) {
    progress_.question.after_audit = answer->newest_audit;
    progress_.question.after_event = answer->newest_event;
  }
  const std::string at = position(progress_.question);
  for (const auto& view : views) {
    const bool is_new = view->is_new();
    if (changed || (is_new && !trouble.empty())) view->trouble(json, at);
    if (is_new && answer) view->ping(at);
  }
  if (!answer) return;
  const LiveAnswer before = std::exchange(progress_.last, *answer);
  if (!std::exchange(progress_.begun, true)) return;
  std::set<std::int64_t> watched;
  for (const auto& [id, version] : answer->versions) {
    const auto was = before.versions.find(id);
    if (was != before.versions.end() && was->second != version) watched.insert(id.value);
  }
  const LiveChanges changes = changes_between(before, *answer);
  for (const auto& view : views) view->changes(changes, watched, at);
}

}  // namespace rung::http
