#include "src/http/handlers/live.h"

#include "src/io/log.h"

namespace rung::http {

using api::Json;

namespace {

constexpr Ms kPing{15'000};
constexpr Ms kLongest{std::chrono::minutes{10}};

bool concerns_causes(std::string_view kind) { return kind.starts_with("cause"); }

LiveChanges changes_between(const LiveAnswer& before, const LiveAnswer& now) {
  LiveChanges out;
  for (const TaskId task : now.changed_by_hand) {
    if (task.value != 0) out.tasks.insert(task);
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
  for (const auto& [id, version] : now.versions) {
    const auto was = before.versions.find(id);
    if (was != before.versions.end() && was->second != version) out.watched.insert(id);
  }
  out.new_tasks = now.newest_task != before.newest_task;
  out.more = now.changed_by_hand.size() > LiveAnswer::kMost || now.event_kinds.size() > LiveAnswer::kMost;
  return out;
}

template <typename Id>
void add(std::set<Id>& ids, const std::set<Id>& others, bool& more) {
  ids.insert(others.begin(), others.end());
  for (; ids.size() > LiveAnswer::kMost; more = true) ids.erase(ids.begin());
}

void add(LiveChanges& to, const LiveChanges& other, const std::vector<TaskId>& watched) {
  add(to.tasks, other.tasks, to.more);
  add(to.bulks, other.bulks, to.more);
  for (const TaskId id : watched) {
    if (other.watched.contains(id)) to.tasks.insert(id);
  }
  to.causes = to.causes || other.causes;
  to.queues = to.queues || other.queues;
  to.new_tasks = to.new_tasks || other.new_tasks;
  to.more = to.more || other.more;
}

Json to_json(const LiveChanges& changes) {
  Json tasks = Json::array(), bulks = Json::array();
  for (const TaskId id : changes.tasks) tasks.push_back(id.str());
  for (const std::int64_t id : changes.bulks) bulks.push_back(std::to_string(id));
  return {{"tasks", std::move(tasks)}, {"bulks", std::move(bulks)},      {"causes", changes.causes},
          {"queues", changes.queues},  {"new_tasks", changes.new_tasks}, {"more", changes.more}};
}

}  // namespace

// Thread: as the feed's; the rest of its state is guarded by the feed's mutex.
struct LiveFeed::View {
  const std::string viewer;
  const std::vector<TaskId> watched;
  const BootMs until;  // it has to come again then: its token may have been withdrawn
  // That it has not been told yet. `more`: something before it came, it has to read anew what it shows.
  LiveChanges changes;
  bool begun = false, asked = false;  // the last question was about what it watches, too
  std::string trouble = {};           // that it was told
  BootMs ping_at{0};                  // also so that both ends notice a dead connection
};

api::EventStream LiveFeed::open(const std::string& viewer, std::vector<TaskId> watched, bool comes_back) {
  const auto view = std::make_shared<View>(
      View{viewer, std::move(watched), clock_.boot() + kLongest, {.more = comes_back}});
  const std::lock_guard lock(mutex_);
  std::erase_if(views_, [](const auto& one) { return one.expired(); });
  const auto own = std::ranges::count_if(views_, [&](const auto& one) {
    const auto other = one.lock();
    return other != nullptr && other->viewer == viewer;
  });
  if (stopping_ || views_.size() >= most_ || 4 * static_cast<std::size_t>(own) >= 3 * most_) return {};
  views_.push_back(view);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  wanted_.notify_all();
  return [this, view] { return take(*view); };
}

std::optional<std::string> LiveFeed::take(View& view) {
  const BootMs now = clock_.boot();
  const std::lock_guard lock(mutex_);
  if (stopping_ || now >= view.until) return std::nullopt;
  std::string out = std::exchange(view.begun, true) ? "" : "retry: 2000\n\n";
  if (!view.asked) return out;
  const auto write = [&](const char* event, const Json& json) {
    out.append("id: ").append(place_).append("\nevent: ").append(event);
    out.append("\ndata: ").append(api::dump(json)).append("\n\n");
  };
  if (view.trouble != trouble_) write("trouble", {{"detail", api::text_or_null(trouble_)}});
  view.trouble = trouble_;
  const LiveChanges changes = std::exchange(view.changes, {});
  if (changes != LiveChanges{}) write("changes", to_json(changes));
  if (now < view.ping_at) return out;
  view.ping_at = now + kPing;
  write("ping", Json::object());
  return out;
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

void LiveFeed::run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      std::erase_if(views_, [](const auto& one) { return one.expired(); });
      if (views_.empty()) {
        question_ = {};
        last_.reset();
      }
      wanted_.wait(lock, [&] { return stopping_ || !views_.empty(); });
      if (stopping_) break;
    }
    try {
      tick();
    } catch (const std::exception& e) {  // as in a handler: it must not end the process
      log::error("events could not be told", {{"what", e.what()}});
    }
    std::unique_lock lock(mutex_);
    if (wanted_.wait_for(lock, kEvery, [&] { return stopping_; })) break;
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  wanted_.notify_all();
}

void LiveFeed::tick() {
  std::vector<std::shared_ptr<View>> views;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : views_) {
      if (auto view = one.lock()) views.push_back(std::move(view));
    }
  }
  std::set<TaskId> watched;
  for (const auto& view : views) watched.insert(view->watched.begin(), view->watched.end());
  question_.watched.assign(watched.begin(), watched.end());
  question_.watched.resize(std::min(watched.size(), LiveQuestion::kMostWatched));
  const auto answer = reads_.result_of([&](MysqlStore& store) { return store.live(question_); });
  LiveChanges changes;
  if (answer) {
    if (last_) changes = changes_between(*last_, *answer);
    question_.after_audit = answer->newest_audit;
    question_.after_event = answer->newest_event;
    last_ = *answer;
  }
  const std::lock_guard lock(mutex_);
  for (const auto& view : views) {
    add(view->changes, changes, view->watched);
    view->asked = true;
  }
  place_ = std::to_string(question_.after_audit) + "-" + std::to_string(question_.after_event);
  trouble_ = answer ? "" : answer.error().message;
}

}  // namespace rung::http
