#include "src/cli/attach/move_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "src/cli/service/retry.h"

namespace rung::cli {
namespace {

constexpr int kMoveAtOnce = 200;
constexpr std::size_t kMoveBytes = std::size_t{16} * 1024 * 1024;  // of messages in memory
constexpr int kInsertTries = 5;                                    // an id or an intake key can be taken

const Fence kByHand{0, {}, true};

Filter scheduled_in(const std::string& queue) {
  Filter filter;
  filter.queue = queue;
  filter.state = State::scheduled;
  filter.order = Filter::Order::oldest;
  filter.limit = kMoveAtOnce;
  return filter;
}

}  // namespace

TaskMover::TaskMover(MoveGroup& from, MoveGroup& to, std::string queue, std::function<Result<void>()> hold)
    : from_(from),
      to_(to),
      queue_(std::move(queue)),
      hold_(std::move(hold)),
      random_(std::random_device{}()),
      ids_(static_cast<int>(random_() % 1024)) {}

Result<void> TaskMover::complete(EpochMs since) {
  in_doubt_ = true;
  Filter filter = scheduled_in(queue_);
  filter.created_after = since;
  for (;;) {
    const auto rows = retry_transient([&] { return to_.session.store->list(filter); });
    if (!rows) return tl::unexpected(rows.error());
    if (rows->empty()) break;
    filter.after = rows->back().task.id;
    std::vector<TaskId> ids;
    for (const TaskRow& row : *rows) ids.push_back(row.task.id);
    const auto known = retry_transient([&] { return to_.session.store->known(ids); });
    if (!known) return tl::unexpected(known.error());
    std::vector<Copy> copies;
    for (const KnownTask& made : *known) {
      const auto from = moved_from_origin(made.origin);
      if (from && from->group == from_.name) copies.push_back({*from, made.row.task.id});
    }
    if (auto done = settle(copies); !done) return done;
    in_doubt_ = true;  // until all are settled
  }
  in_doubt_ = false;
  return {};
}

Result<void> TaskMover::check_origins() {
  return for_scheduled([this](const std::vector<TaskId>& ids) -> Result<void> {
    const auto tasks = retry_transient([&] { return from_.session.store->known(ids); });
    if (!tasks) return tl::unexpected(tasks.error());
    return check_origins(*tasks);
  });
}

Result<std::int64_t> TaskMover::pass() {
  const std::int64_t before = moved_;
  why_left_.clear();
  // The causes that the target has: those of the tasks are among them, or are new there.
  if (auto read = retry_transient([&] { return to_.session.store->read_causes(); }); !read)
    return tl::unexpected(read.error());
  auto done = for_scheduled([this](const std::vector<TaskId>& ids) { return move(ids); });
  if (!done) return tl::unexpected(done.error());
  return moved_ - before;
}

Result<void> TaskMover::for_scheduled(const std::function<Result<void>(const std::vector<TaskId>&)>& move) {
  Filter filter = scheduled_in(queue_);
  for (;;) {
    const auto rows = retry_transient([&] { return from_.session.store->list(filter); });
    if (!rows) return tl::unexpected(rows.error());
    if (rows->empty()) return {};
    filter.after = rows->back().task.id;
    std::vector<TaskId> ids;
    std::size_t bytes = 0;
    for (const TaskRow& row : *rows) {
      if (!ids.empty() && bytes + message_bytes(row.task) > kMoveBytes) {
        if (auto done = move(std::exchange(ids, {})); !done) return done;
        bytes = 0;
      }
      ids.push_back(row.task.id);
      bytes += message_bytes(row.task);
    }
    if (auto done = move(ids); !done) return done;
  }
}

Result<void> TaskMover::move(const std::vector<TaskId>& ids) {
  if (auto good = hold_(); !good) return good;
  const auto old = retry_transient([&] { return from_.session.store->known(ids); });
  if (!old) return tl::unexpected(old.error());
  auto messages = retry_transient([&] { return from_.session.store->messages(ids); });
  if (!messages) return tl::unexpected(messages.error());
  if (auto good = check_origins(*old); !good) return good;
  std::map<TaskId, StoredMessage> by_id;
  for (StoredMessage& message : *messages) by_id[message.id] = std::move(message);
  std::vector<NewTask> tasks;
  for (const KnownTask& known : *old) {
    const Task& task = known.row.task;
    if (task.state != State::scheduled) continue;
    const auto stored = by_id.find(task.id);
    if (stored == by_id.end() || stored->second.message == nullptr) {
      why_left_ = "task " + task.id.str() + ": its message cannot be read" +
                  (stored == by_id.end() ? "" : ": " + stored->second.broken);
      continue;
    }
    tasks.push_back(moved_task(task, stored->second.message, known.origin,
                               {from_.name, task.id, task.version}, cli_user()));
  }
  if (tasks.empty()) return {};
  in_doubt_ = true;
  const auto copies = insert(std::move(tasks));
  if (!copies) return tl::unexpected(copies.error());
  return settle(*copies);
}

Result<void> TaskMover::check_origins(const std::vector<KnownTask>& tasks) {
  std::vector<MovedFrom> origins;
  std::vector<TaskId> ids;
  for (const KnownTask& known : tasks) {
    const auto from = moved_from_origin(known.origin);
    if (known.row.task.state != State::scheduled || !from || from->group != to_.name) continue;
    origins.push_back(*from);
    ids.push_back(from->id);
  }
  const auto rows = retry_transient([&] { return to_.session.store->known(ids); });
  if (!rows) return tl::unexpected(rows.error());
  for (const KnownTask& known : *rows) {
    const Task& task = known.row.task;
    const auto from = std::ranges::find(origins, task.id, &MovedFrom::id);
    if (from != origins.end() && !is_moved_away(task, *from, from_.name)) {
      return permanent(fmt::format(
          "task {0} is {1} in group {2}, and has a copy in group {3}: a move to {3} was not finished: put "
          "the queue back under groups.{3}.queues and run `rung move {4} --to {3}` first",
          task.id.str(), to_word(task.state), to_.name, from_.name, queue_));
    }
  }
  return {};
}

Result<std::vector<TaskMover::Copy>> TaskMover::insert(std::vector<NewTask> tasks) {
  std::vector<Copy> copies;
  for (int tries = 0; tries < kInsertTries && !tasks.empty(); ++tries) {
    const auto now = retry_transient([&] { return to_.session.store->now(); });
    if (!now) return tl::unexpected(now.error());
    const int shard = static_cast<int>(random_() % kShards);
    for (NewTask& made : tasks) {
      made.task.id = ids_.next(*now);
      made.task.shard = shard;
      made.task.created_at = *now;
    }
    const auto results = retry_transient([&] { return to_.session.store->insert(tasks, kByHand); });
    if (!results) return tl::unexpected(results.error());
    std::vector<NewTask> again;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const Inserted& result = (*results)[i];
      const MovedFrom from = moved_from_origin(tasks[i].origin_json).value_or(MovedFrom{});
      Same same = result.how == Inserted::How::inserted ? Same::copy : Same::no;
      if (result.how == Inserted::How::duplicate) {
        const auto found = is_same(tasks[i], result.id);
        if (!found) return tl::unexpected(found.error());
        same = *found;
        if (same == Same::no) tasks[i].intake_key = moved_key(from);
      }
      if (same != Same::no) {
        copies.push_back({from, result.id, same == Same::copy});
      } else if (result.how == Inserted::How::too_large) {
        why_left_ = "task " + from.id.str() + ": its body is too large for the database of group " +
                    to_.name + " (max_allowed_packet)";
      } else {
        again.push_back(std::move(tasks[i]));
      }
    }
    tasks = std::move(again);
  }
  if (!tasks.empty()) why_left_ = "no id was free in group " + to_.name;
  return copies;
}

Result<TaskMover::Same> TaskMover::is_same(const NewTask& wanted, TaskId there) {
  const auto known = retry_transient([&] { return to_.session.store->known({&there, 1}); });
  if (!known) return tl::unexpected(known.error());
  if (known->empty() || !is_same_task(wanted, known->front().row.task, known->front().origin))
    return Same::no;
  return moved_from_origin(known->front().origin) == moved_from_origin(wanted.origin_json) ? Same::copy
                                                                                           : Same::submitted;
}

Result<void> TaskMover::settle(const std::vector<Copy>& copies) {
  in_doubt_ = true;
  if (auto good = hold_(); !good) return good;
  const std::string reason = moved_reason(to_.name);
  std::vector<Event> events;
  for (const Copy& copy : copies)
    events.push_back({copy.from.id, event::Cancel{reason}, ByHand{cli_user(), copy.from.version, reason}});
  const auto decisions = retry_transient(
      [&] { return from_.session.store->apply(events, Fence{}, decider(from_.session.config.rules)); });
  if (!decisions) return tl::unexpected(decisions.error());
  std::vector<TaskId> not_applied;
  for (const Decision& decision : *decisions) {
    if (decision.verdict == Decision::Verdict::applied) {
      ++moved_;
    } else {
      not_applied.push_back(decision.task.id);
    }
  }
  const auto known = retry_transient([&] { return from_.session.store->known(not_applied); });
  if (!known) return tl::unexpected(known.error());
  std::vector<Copy> wrong;
  for (const Copy& copy : copies) {
    // A row that is gone was finished by then, most likely by this command: unfinished ones are not deleted.
    const auto now =
        std::ranges::find(*known, copy.from.id, [](const KnownTask& k) { return k.row.task.id; });
    if (copy.made && now != known->end() && !is_moved_away(now->row.task, copy.from, to_.name))
      wrong.push_back(copy);
  }
  if (auto done = cancel_copies(wrong); !done) return done;
  in_doubt_ = false;
  return {};
}

Result<void> TaskMover::cancel_copies(const std::vector<Copy>& copies) {
  if (copies.empty()) return {};
  const std::string reason = "it was changed in group " + from_.name + " while it moved";
  std::vector<Event> events;
  for (const Copy& copy : copies)
    events.push_back({copy.id, event::Cancel{reason}, ByHand{cli_user(), std::nullopt, reason}});
  const auto done = retry_transient(
      [&] { return to_.session.store->apply(events, Fence{}, decider(to_.session.config.rules)); });
  if (!done) return tl::unexpected(done.error());
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const Decision& decision = (*done)[i];
    if (decision.verdict == Decision::Verdict::applied || decision.task.state == State::cancelled) continue;
    return permanent("task " + copies[i].from.id.str() + " was changed in group " + from_.name +
                     " while it moved, and its copy in group " + to_.name + ", task " + copies[i].id.str() +
                     ", cannot be cancelled: " + decision.reason);
  }
  return {};
}

}  // namespace rung::cli
