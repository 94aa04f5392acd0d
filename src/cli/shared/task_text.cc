#include "src/cli/shared/task_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "plugin/brokers.h"
#include "plugin/rabbitmq/topology/attachment.h"
#include "src/api/queues/gates.h"
#include "src/api/tasks/views.h"
#include "src/cli/shared/text.h"
#include "src/cli/shared/when.h"
#include "src/config/config.h"
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
  if (!body_stored(task)) return text + "; " + not_stored_text(task);
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
  if (task.replaced_by.value != 0) text += "; replaced by " + task.replaced_by.str() + ", an edited copy";
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
  return error_line(failure.error_type, failure.error);
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

// The groups to search: all of the config. Empty: it has none, or one is chosen.
std::vector<std::string> groups_to_search(const Common& common) {
  const std::string path = find_config(common);
  if (!group_choice(common).name.empty() || !common.api.url.empty() || path.empty()) return {};
  if (!load_config(path, ConfigFor::api).config.api.url.empty()) return {};
  const LoadedConfig loaded = load_config(path, ConfigFor::broker);  // no group need be chosen
  if (!loaded.ok()) return {};                                       // who opens it says why
  std::vector<std::string> names;
  for (const QueueGroups::Group& group : loaded.config.groups.all) names.push_back(group.name);
  return names;
}

struct Place {
  std::string group;  // "" = there are no groups
  TaskRow task;
  bool more = false;  // there are others with its message-id
};

// Of several with the same message-id, the newest. Reports the groups that cannot be searched only if no
// other group has the task: it may be in one of them.
int find_in_groups(const std::vector<std::string>& groups, const TaskOptions& options, Session& session,
                   std::optional<Place>& place) {
  const std::string config = find_config(options.common);
  std::vector<std::pair<std::string, Error>> problems;
  std::string open;
  for (const std::string& group : groups) {
    open = group;
    bool more = false;
    const auto opened = open_group(config, {group}, session);
    auto found =
        opened ? find_task(*session.service.tasks, options.id, &more) : tl::unexpected(opened.error());
    if (!found && found.error().kind == Error::Kind::not_found) continue;
    if (!found) {
      problems.emplace_back(group, found.error());
      continue;
    }
    if (place) place->more = true;
    if (place && found->task.created_at <= place->task.task.created_at) continue;
    place = {group, *std::move(found), more || place.has_value()};
    if (place->task.task.id.str() == options.id) break;
  }
  if (place && place->group == open) return kSuccess;
  if (place) {
    const auto again = open_group(config, {place->group}, session);
    return again ? static_cast<int>(kSuccess) : report_error(again.error());
  }
  if (problems.empty())
    return report_error(kNotFound, "no task with retry-id or message-id '" + options.id + "'");
  int code = kSuccess;
  for (const auto& [group, error] : problems)
    code = std::max(code, report_error(exit_of(error), "group " + group + ": " + error.message));
  return code;
}

}  // namespace

int find_ids(Session& session, const std::vector<std::string>& words, std::vector<TaskId>& ids) {
  for (const std::string& word : words) {
    bool more = false;
    const auto found = find_task(*session.service.tasks, word, &more);
    const auto id = found ? std::optional(found->task.id) : TaskId::parse(word);
    // With a retry-id nothing has to be found: the change says whether there is such a task.
    if (!found && !id) return report_error(found.error());
    if (more)
      return report_error(kUserError, "several tasks have the message-id '" + word +
                                          "': `rung list --message-id " + word + "` has their retry-ids");
    if (std::ranges::find(ids, *id) == ids.end()) ids.push_back(*id);
  }
  return kSuccess;
}

int open_task(const TaskOptions& options, Session& session, TaskRow& task) {
  std::optional<Place> place;
  if (const auto groups = groups_to_search(options.common); !groups.empty()) {
    if (const int code = find_in_groups(groups, options, session, place); code != kSuccess) return code;
  } else {
    if (const int code = open_service(options.common, session); code != kSuccess) return code;
    bool more = false;
    auto found = find_task(*session.service.tasks, options.id, &more);
    if (!found) return report_error(found.error());
    place = {"", *std::move(found), more};
  }
  task = std::move(place->task);
  if (place->more) {
    const std::string hint = fmt::format(
        "rung: showing the newest task of message-id {}; for all of them: rung list --message-id {}{}\n",
        one_line(options.id), one_line(options.id), place->group.empty() ? "" : " --group NAME");
    std::fwrite(hint.data(), 1, hint.size(), stderr);
  }
  return kSuccess;
}

std::string next_of(Session& session, const TaskRow& row) {
  std::optional<Silence::Means> means;
  if (row.task.state == State::awaiting && row.task.next_at) {
    if (const auto silence = session.service.tasks->silence_of(row.task)) means = silence->means;
  }
  const std::string text = what_next(row, means, session.now);
  const auto gate = session.service.tasks->holding_gate(row.task);
  return gate && *gate ? text + "; " + held_text(**gate) : text;
}

std::string held_text(const QueueGate& gate) {
  const bool waits = gate.state == "breaker_open";
  return api::gate_text(gate) +
         (waits ? ": `rung resume " + rabbit::shell_quote(gate.queue) + " --probe` tries one now" : "");
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
