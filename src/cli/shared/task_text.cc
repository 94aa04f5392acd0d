#include "src/cli/shared/task_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plugin/brokers.h"
#include "src/cli/shared/text.h"
#include "src/cli/shared/when.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/headers.h"
#include "src/core/message/message_json.h"

namespace rung::cli {

namespace {

// The first delivery of a delay is not a retry.
std::string attempts_text(const Task& task) {
  const bool delay = task.kind == Kind::delay;
  if (task.attempt == 0) return delay ? "before it was due" : "before its first retry";
  const char* one = delay ? "delivery" : "retry";
  const char* many = delay ? "deliveries" : "retries";
  return fmt::format("after {} {}", task.attempt, task.attempt == 1 ? one : many);
}

std::string level_text(const Task& task) {
  return task.level == 0 ? "the delay" : fmt::format("level {} of {}", task.level, task.levels);
}

// In words: "queue orders", "exchange shop, routing key order.close".
std::string target_text(const Task& task) {
  const Target target = target_of(task);
  if (!target.queue.empty()) return "queue " + target.queue;
  if (target.exchange.empty()) return "queue " + target.routing_key;
  return "exchange " + target.exchange +
         (target.routing_key.empty() ? "" : ", routing key " + target.routing_key);
}

std::string awaiting(const Task& task, std::optional<Silence::Means> silence, EpochMs now) {
  std::string text = fmt::format("awaiting: attempt {} ({}) {} {}", task.attempt, level_text(task),
                                 task.queue.empty() ? "went to" : "is in", target_text(task));
  if (!task.next_at)
    return text + fmt::format(
                      "; whether it succeeded is not known, its silence is held open: `rung finish {0} "
                      "--succeeded` or --failed decides, `rung redrive {0}` sends it again",
                      task.id.str());
  if (!silence) return text + "; its silence ends at " + moment(*task.next_at, now);
  const bool success = *silence == Silence::Means::success;
  return text + fmt::format("; silence until {} means {}", moment(*task.next_at, now),
                            success ? "success" : "failure, and the next level");
}

std::string succeeded(const Task& task, EpochMs now) {
  std::string text = "succeeded " + attempts_text(task);
  if (task.finished_by == FinishedBy::presumed) text += ", presumed: no failure was reported";
  if (task.finished_by == FinishedBy::reported) text += ", reported";
  if (!task.finished_at) return text;
  const bool failed = task.first_failed_at.ms > 0;
  return text + fmt::format(", {} after {}, at {}",
                            humanise(*task.finished_at - (failed ? task.first_failed_at : task.created_at)),
                            failed ? "the first failure" : "it was received", moment(*task.finished_at, now));
}

std::string parked(const Task& task, EpochMs now) {
  std::string text = "parked " + attempts_text(task);
  if (task.finished_at) text += ", at " + moment(*task.finished_at, now);
  if (task.replaced_by.value != 0)
    return text + "; replaced by " + task.replaced_by.str() + ", an edited copy";
  const bool known = target_of(task).is_set();
  if (!known)
    return text +
           fmt::format("; its queue is unknown: `rung redrive {} --to-queue QUEUE` sends it", task.id.str());
  return text + fmt::format("; `rung redrive {}` sends it to {} again", task.id.str(),
                            task.queue.empty() ? target_text(task) : task.queue);
}

}  // namespace

std::string what_next(const TaskRow& row, std::optional<Silence::Means> silence, EpochMs now) {
  const Task& task = row.task;
  switch (task.state) {
    case State::scheduled: {
      std::string text = "scheduled: " + level_text(task);
      if (task.level == 0) text += " to " + target_text(task);
      if (task.next_at) text += ", due " + moment(*task.next_at, now);
      return text;
    }
    case State::publishing:
      return fmt::format("publishing: attempt {} ({}) to {}", task.attempt, level_text(task),
                         target_text(task));
    case State::awaiting:
      return awaiting(task, silence, now);
    case State::succeeded:
      return succeeded(task, now);
    case State::parked:
      return parked(task, now);
    case State::cancelled:
    case State::discarded:
      break;
    case State::unknown:
      return "unknown state, written by a newer version of Rung";
  }
  std::string text = std::string(to_word(task.state)) + " " + attempts_text(task);
  if (task.finished_at) text += ", at " + moment(*task.finished_at, now);
  return text;
}

std::string destination(const Task& task) {
  const Target target = target_of(task);
  if (!target.is_set()) return "-";
  if (!target.queue.empty()) return target.queue;
  return target.exchange.empty() ? target.routing_key : target.exchange + " > " + target.routing_key;
}

std::string due_cell(const Task& task, EpochMs now) {
  if (is_silence_held(task)) return "silence open";
  if (!task.next_at) return "-";
  const Ms away = *task.next_at - now;
  switch (task.state) {
    case State::scheduled:
    case State::publishing:
      if (away <= Ms{-1000} && time_style() == TimeStyle::relative) return humanise(-away) + " late";
      return relative(*task.next_at, now);
    case State::awaiting:
      return "silence " + relative(*task.next_at, now);
    default:
      return "-";
  }
}

std::string first_error(std::string_view origin_json) {
  auto headers = headers_from_json(origin_json);
  if (!headers || headers->empty()) return {};
  Message message;
  message.headers = *std::move(headers);
  const BrokerFacts facts = stored_facts(message);
  const Failure failure = read_failure(message, "", "", facts.failure);
  if (failure.error_type.empty() || failure.error.starts_with(failure.error_type)) return failure.error;
  return failure.error_type + ": " + failure.error;
}

std::string dump(const Json& json, bool pretty) {
  return escape_controls_in_json(json.dump(pretty ? 2 : -1, ' ', false, Json::error_handler_t::replace));
}

int print_json(const Json& json) {
  print(dump(json) + "\n");
  return kSuccess;
}

std::string printable_body(std::string_view body) {
  if (is_utf8(body)) return lines(body, 0);
  std::string out;
  for (const char c : body) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte >= 0x20 && byte < 0x7f && c != '\\' ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return out;
}

namespace {

// By retry-id or, if there is no such task, by message-id: then the newest task.
Result<TaskRow> find_task(TaskQueries& store, const std::string& id, bool* more) {
  *more = false;
  if (const auto task_id = TaskId::parse(id)) {
    auto row = store.find(*task_id);
    if (!row) return tl::unexpected(row.error());
    if (*row) return **row;
  }
  Filter filter;
  filter.message_id = id;
  filter.limit = 2;
  auto rows = store.list(filter);
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return not_found("no task with retry-id or message-id '" + id + "'");
  *more = rows->size() > 1;
  return rows->front();
}

// The groups to search: all of the config, unless one is chosen. {""}: there are none, or one is.
std::vector<std::string> groups_to_search(const Common& common) {
  const std::string path = find_config(common);
  if (!group_choice(common).name.empty() || !common.api.url.empty() || path.empty()) return {""};
  if (!load_config(path, ConfigFor::api).config.api.url.empty()) return {""};
  const LoadedConfig loaded = load_config(path, ConfigFor::broker);  // no group need be chosen
  if (!loaded.ok() || loaded.config.groups.empty()) return {""};
  std::vector<std::string> names;
  for (const QueueGroups::Group& group : loaded.config.groups.all) names.push_back(group.name);
  return names;
}

int open_group(const Common& common, const std::string& group, Session& session) {
  session.service = {};
  session.store.reset();
  Common of_group = common;
  if (!group.empty()) of_group.group = group;
  return open_service(of_group, session);
}

// Opens the group that has the task; of several with its message-id, the one with the newest. Prints errors,
// also of groups that cannot be searched: without them, that no other has the task proves nothing.
int open_any(const TaskOptions& options, Session& session, TaskRow& task, bool* more) {
  std::optional<std::string> place;  // the group of `task`
  std::string open;
  int code = kSuccess;
  for (const std::string& group : groups_to_search(options.common)) {
    if (const int opened = open_group(options.common, group, session); opened != kSuccess) {
      code = opened;
      continue;
    }
    open = group;
    bool several = false;
    auto found = find_task(*session.service.tasks, options.id, &several);
    if (!found && found.error().kind != Error::Kind::not_found) code = report_error(found.error());
    if (!found || (place && found->task.created_at <= task.task.created_at)) continue;
    *more = several || place.has_value();
    task = *std::move(found);
    place = group;
    if (task.task.id.str() == options.id) break;
  }
  if (place) return *place == open ? static_cast<int>(kSuccess) : open_group(options.common, *place, session);
  if (code != kSuccess) return code;
  return report_error(kNotFound, "no task with retry-id or message-id '" + options.id + "'");
}

}  // namespace

int report_no_id(const std::string& word) {
  return report_error(kUserError, "'" + word + "' is not a retry-id (digits): `rung list --message-id " +
                                      word + "` lists the retry-ids of a message");
}

int open_task(const TaskOptions& options, Session& session, TaskRow& task) {
  bool more = false;
  if (const int code = open_any(options, session, task, &more); code != kSuccess) return code;
  if (more) {
    const std::string hint = fmt::format(
        "rung: showing the newest task of message-id {}; for all of them: rung list --message-id {}\n",
        one_line(options.id), one_line(options.id));
    std::fwrite(hint.data(), 1, hint.size(), stderr);
  }
  return kSuccess;
}

std::string next_of(Session& session, const TaskRow& row) {
  std::optional<Silence::Means> means;
  if (row.task.state == State::awaiting && row.task.next_at) {
    if (const auto silence = session.service.tasks->silence_of(row.task)) means = silence->means;
  }
  return what_next(row, means, session.now);
}

std::string joined(std::initializer_list<std::string> parts) {
  std::string out;
  for (const std::string& part : parts) {
    if (!part.empty()) out += (out.empty() ? "" : ", ") + part;
  }
  return out;
}
std::string named(std::string_view name, const std::string& value) {
  return value.empty() ? std::string() : std::string(name) + " " + one_line(value);
}

}  // namespace rung::cli
