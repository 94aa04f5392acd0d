#include "src/http/handlers/live.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "src/api/base/json.h"
#include "src/io/log.h"

namespace rung::http {

using api::Json;

// What has changed since a viewer's last event.
struct LiveChanges {
  std::set<std::int64_t> tasks = {}, bulks = {};
  bool causes = false, queues = false, new_tasks = false;
  bool more = false;  // than these

  bool empty() const { return tasks.empty() && bulks.empty() && !causes && !queues && !new_tasks && !more; }
  void add(const LiveChanges& other) {
    causes = causes || other.causes;
    queues = queues || other.queues;
    new_tasks = new_tasks || other.new_tasks;
    more = more || other.more;
    for (const auto& [ids, others] : {std::pair(&tasks, &other.tasks), {&bulks, &other.bulks}}) {
      ids->insert(others->begin(), others->end());
      for (; ids->size() > LiveAnswer::kMost; more = true) ids->erase(ids->begin());
    }
  }
  std::string json() const {
    return api::dump({{"tasks", texts(tasks)},
                      {"bulks", texts(bulks)},
                      {"causes", causes},
                      {"queues", queues},
                      {"new_tasks", new_tasks},
                      {"more", more}});
  }

 private:
  static Json texts(const std::set<std::int64_t>& ids) {
    Json out = Json::array();
    for (const std::int64_t id : ids) out.push_back(std::to_string(id));
    return out;
  }
};

// What a viewer is told at once.
struct LiveNews {
  std::string id;                           // where the viewer goes on if it loses the connection
  std::optional<std::string> trouble = {};  // why there is no news, as JSON
  LiveChanges changes = {};
  // It is there: what changes from now on is told. Also so that both ends notice a dead connection.
  bool ping = false;
  bool end = false;
};

namespace {

constexpr Ms kPing{15'000};
constexpr Ms kLongest{std::chrono::minutes{10}};

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

// What one viewer still has to get: the latest of each event, so that a slow one costs no more memory than a
// quick one. Thread: any.
class LiveFeed::View final : public api::EventStream {
 public:
  // `until`: it has to come again then: its token may have been withdrawn.
  View(std::string who, std::vector<TaskId> watches, BootMs till)
      : viewer(std::move(who)), watched(std::move(watches)), until(till) {}

  const std::string viewer;
  const std::vector<TaskId> watched;
  const BootMs until;
  bool is_new = true;  // nothing was told to it yet; the feed's thread's

  void begin(std::function<void()> wake) override {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
  }
  std::optional<std::string> take() override {
    const std::lock_guard lock(mutex_);
    if (news_.end) return std::nullopt;
    std::string out;
    const auto write = [&](const char* event, const std::string& json) {
      out.append("id: ").append(news_.id).append("\nevent: ").append(event);
      out.append("\ndata: ").append(json).append("\n\n");
    };
    if (!std::exchange(begun_, true)) out = "retry: 2000\n\n";
    if (news_.trouble) write("trouble", *news_.trouble);
    if (!news_.changes.empty()) write("changes", news_.changes.json());
    if (news_.ping) write("ping", "{}");
    news_ = {news_.id};
    return out;
  }
  void tell(const LiveNews& news) {
    if (!news.trouble && news.changes.empty() && !news.ping && !news.end) return;
    std::function<void()> wake;
    {
      const std::lock_guard lock(mutex_);
      news_.id = news.id;
      if (news.trouble) news_.trouble = news.trouble;
      news_.changes.add(news.changes);
      news_.ping = news_.ping || news.ping;
      news_.end = news_.end || news.end;
      wake = wake_;
    }
    if (wake) wake();
  }

 private:
  std::mutex mutex_;
  // Guarded by mutex_.
  std::function<void()> wake_;
  LiveNews news_;
  bool begun_ = false;
};

std::shared_ptr<api::EventStream> LiveFeed::open(const std::string& viewer, std::vector<TaskId> watched,
                                                 std::string_view resumes_at) {
  const auto view = std::make_shared<View>(viewer, std::move(watched), clock_.boot() + kLongest);
  // What it has missed is not kept: it has to read anew what it shows.
  if (!resumes_at.empty())
    view->tell({.id = std::string(resumes_at.substr(0, 64)), .changes = {.more = true}});
  const std::lock_guard lock(mutex_);
  std::erase_if(views_, [](const auto& one) { return one.expired(); });
  const auto own = std::ranges::count_if(views_, [&](const auto& one) {
    const auto other = one.lock();
    return other != nullptr && other->viewer == viewer;
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

std::vector<std::shared_ptr<LiveFeed::View>> LiveFeed::current() {
  std::vector<std::shared_ptr<View>> out;
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
    const bool pings = clock_.boot() >= ping_at;
    if (pings) ping_at = clock_.boot() + kPing;
    try {
      tick(pings);
    } catch (const std::exception& e) {  // as in a handler: it must not end the process
      log::error("events could not be told", {{"what", e.what()}});
    }
    std::unique_lock lock(mutex_);
    wanted_.wait_for(lock, kEvery, [&] { return stopping_; });
    if (stopping_) break;
  }
  for (const auto& view : current()) view->tell({.id = "", .end = true});
  const std::lock_guard lock(mutex_);
  ended_ = true;
  wanted_.notify_all();
}

void LiveFeed::tick(bool pings) {
  const auto views = current();
  std::set<std::int64_t> watched;
  for (const auto& view : views) {
    for (const TaskId id : view->watched) watched.insert(id.value);
  }
  LiveQuestion& question = progress_.question;
  question.watched.clear();
  for (const std::int64_t id : watched) {
    if (question.watched.size() < LiveQuestion::kMostWatched) question.watched.push_back({id});
  }
  const auto answer = reads_.result_of([&](MysqlStore& store) { return api::need(store.live(question)); });
  const std::string trouble = answer ? "" : answer.error().message;
  const bool other_trouble = std::exchange(progress_.trouble, trouble) != trouble;
  LiveChanges changes;
  std::set<TaskId> changed;  // of those that are watched
  if (answer) {
    question.after_audit = answer->newest_audit;
    question.after_event = answer->newest_event;
    const LiveAnswer before = std::exchange(progress_.last, *answer);
    if (std::exchange(progress_.begun, true)) {
      changes = changes_between(before, *answer);
      for (const auto& [id, version] : answer->versions) {
        const auto was = before.versions.find(id);
        if (was != before.versions.end() && was->second != version) changed.insert(id);
      }
    }
  }
  // Where a viewer is: "audit-event".
  const std::string at = std::to_string(question.after_audit) + "-" + std::to_string(question.after_event);
  for (const auto& view : views) {
    const bool is_new = std::exchange(view->is_new, false);
    LiveNews news{.id = at, .changes = changes};
    if (other_trouble || (is_new && !trouble.empty()))
      news.trouble = api::dump({{"detail", api::text_or_null(trouble)}});
    // Tasks that were not changed by hand concern those who watch them.
    for (const TaskId id : view->watched) {
      if (changed.contains(id)) news.changes.tasks.insert(id.value);
    }
    news.ping = pings || (is_new && answer);
    news.end = clock_.boot() >= view->until;
    view->tell(news);
  }
}

}  // namespace rung::http
