#include "src/http/handlers/live_view.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/base/fields.h"

namespace rung::http {
namespace {

using api::Json;

Json texts(const std::set<std::int64_t>& ids) {
  Json out = Json::array();
  for (const std::int64_t id : ids) out.push_back(std::to_string(id));
  return out;
}

void keep_within(std::set<std::int64_t>& ids, bool& more) {
  while (ids.size() > LiveAnswer::kMost) {
    ids.erase(ids.begin());
    more = true;
  }
}

std::string as_json(const LiveChanges& changes) {
  return api::dump({{"tasks", texts(changes.tasks)},
                    {"bulks", texts(changes.bulks)},
                    {"causes", changes.causes},
                    {"queues", changes.queues},
                    {"new_tasks", changes.new_tasks},
                    {"more", changes.more}});
}

void write_event(std::string& out, std::string_view event, std::string_view id, std::string_view json) {
  out.append("id: ")
      .append(id)
      .append("\nevent: ")
      .append(event)
      .append("\ndata: ")
      .append(json)
      .append("\n\n");
}

}  // namespace

void LiveChanges::add(const LiveChanges& other) {
  tasks.insert(other.tasks.begin(), other.tasks.end());
  bulks.insert(other.bulks.begin(), other.bulks.end());
  causes = causes || other.causes;
  queues = queues || other.queues;
  new_tasks = new_tasks || other.new_tasks;
  more = more || other.more;
  keep_within(tasks, more);
  keep_within(bulks, more);
}

void LiveView::begin(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

std::optional<std::string> LiveView::take() {
  const std::lock_guard lock(mutex_);
  if (ended_) return std::nullopt;
  std::string out;
  if (!std::exchange(begun_, true)) out = "retry: 2000\n\n";
  if (!trouble_.empty()) write_event(out, "trouble", id_, std::exchange(trouble_, ""));
  if (!changes_.empty()) write_event(out, "changes", id_, as_json(std::exchange(changes_, {})));
  if (std::exchange(pinged_, false)) write_event(out, "ping", id_, "{}");
  return out;
}

bool LiveView::is_new() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(is_known_, true);
}

void LiveView::trouble(const std::string& json, const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    trouble_ = json;
    id_ = id;
  }
  wake();
}

void LiveView::changes(const LiveChanges& changes, const std::set<std::int64_t>& watched,
                       const std::string& id) {
  LiveChanges own = changes;
  for (const TaskId task : watched_) {
    if (watched.contains(task.value)) own.tasks.insert(task.value);
  }
  if (own.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    changes_.add(own);
    id_ = id;
  }
  wake();
}

void LiveView::ping(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    pinged_ = true;
    id_ = id;
  }
  wake();
}

void LiveView::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  wake();
}

void LiveView::wake() {
  std::function<void()> wake;
  {
    const std::lock_guard lock(mutex_);
    wake = wake_;
  }
  if (wake) wake();
}

}  // namespace rung::http
