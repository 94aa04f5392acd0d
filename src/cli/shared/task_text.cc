#include "src/cli/shared/task_text.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "plugin/rabbitmq/topology/attachment.h"
#include "src/api/queues/queues.h"
#include "src/cli/shared/text.h"
#include "src/config/config.h"
#include "src/core/base/hex.h"
#include "src/core/base/utf8.h"

namespace rung::cli {
namespace {

// Its own, or that of its queue's rules; null: not known.
const Json& silence_of(const Json& task) {
  const Json& silence = part_of(task, "silence");
  return silence.is_object() ? silence : part_of(task, "success");
}

std::string silence_text(const Json& task, EpochMs now) {
  const auto end = time_of(task, "next_due_at");
  if (!end)
    return fmt::format(
        "; whether it succeeded is not known: `rung finish {0} --succeeded` or --failed decides, `rung "
        "redrive {0}` sends it again",
        text_of(task, "retry_id"));
  const Json& silence = silence_of(task);
  return "; silence until " + moment(*end, now) +
         (!silence.is_object()                 ? " ends it"
          : silence.contains("presumed_after") ? " means success"
                                               : " means failure, and the next level");
}

std::string parked_text(const Json& task) {
  if (part_of(task, "body_stored") == false) return "; " + not_stored_text(task);
  const std::string id = text_of(task, "retry_id"), to = destination(task);
  if (to == "-")
    return fmt::format("; its queue is unknown: `rung redrive {} --to-queue QUEUE` sends it", id);
  return fmt::format("; `rung redrive {}` sends it to {} again", id, to);
}

// The newest, and whether it is the only one; null: there is none.
std::pair<Json, bool> newest_of_message(Api& api, const std::string& id) {
  if (id.empty()) return {};
  const Json page = need(read_page(api, "/v1/tasks", {{"message_id", id}}, "tasks", 2, ""));
  const Json& tasks = part_of(page, "tasks");
  return {tasks.empty() ? Json() : tasks.front(), tasks.size() == 1};
}

Failed several_tasks(const std::string& message_id) {
  return {kUserError, "several tasks have the message-id '" + message_id + "': `rung list --message-id " +
                          message_id + "` has their retry-ids"};
}

}  // namespace

std::string not_stored_text(const Json& task) {
  Task lost;
  lost.last_error = text_of(task, "last_error");
  return rung::not_stored_text(lost);
}

std::string what_next(const Json& task, EpochMs now) {
  const State state = state_of(task);
  const std::int64_t level = number_of(task, "level"), attempt = number_of(task, "attempt");
  const std::string by = text_of(task, "finished_by"), copy = text_of(task, "replaced_by");
  const auto due = time_of(task, "next_due_at"), end = time_of(task, "finished_at");
  std::string text = text_of(task, "state") + ": ";
  text += level == 0 ? "the delay" : fmt::format("level {} of {}", level, number_of(task, "levels"));
  if (attempt > 0) text += fmt::format(", attempt {}", attempt);
  if (!end) text += " to " + destination(task);
  if (!by.empty()) text += ", " + by;
  if (end) text += ", at " + moment(*end, now);
  if (due && state == State::scheduled) text += ", due " + moment(*due, now);
  if (state == State::awaiting) text += silence_text(task, now);
  if (state == State::parked) text += parked_text(task);
  return copy.empty() ? text : text + "; replaced by " + copy + ", an edited copy";
}

std::string destination(const Json& task) {
  const std::string queue = text_of(task, "queue"), exchange = text_of(task, "exchange");
  if (!queue.empty()) return queue;
  if (!flag_of(task, "by_exchange")) return "-";
  return (exchange.empty() ? "" : exchange + " > ") + text_of(task, "routing_key");
}

std::string due_cell(const Json& task, EpochMs now) {
  const State state = state_of(task);
  const auto due = time_of(task, "next_due_at");
  if (state == State::awaiting) return "silence " + (due ? relative(*due, now) : "open");
  if (!due || (state != State::scheduled && state != State::publishing)) return "-";
  const Ms late = now - *due;
  if (late >= Ms{1000} && time_style() == TimeStyle::relative) return humanise(late) + " late";
  return relative(*due, now);
}

std::string dump(const Json& json, bool pretty) {
  return escape_controls_in_json(json.dump(pretty ? 2 : -1, ' ', false, Json::error_handler_t::replace));
}

int print_json(const Json& json) {
  print(dump(json) + "\n");
  return kSuccess;
}

int print_answer(const Json& answer, const std::function<std::string(const Json&)>& text) {
  print(given().json ? dump(answer) + "\n" : text(answer));
  return kSuccess;
}

std::string more_text(const std::string& what, const Json& page) {
  const std::string next = text_of(page, "next");
  return next.empty() ? next : "\n" + what + ": add --cursor " + one_line(next) + " for the next page\n";
}

std::string read_bytes(const std::string& file) {
  std::FILE* const in = file == "-" ? stdin : std::fopen(file.c_str(), "rb");
  std::string bytes;
  std::array<char, 65536> piece{};
  for (std::size_t read = 1; in != nullptr && read > 0; bytes.append(piece.data(), read))
    read = std::fread(piece.data(), 1, piece.size(), in);
  const bool failed = in == nullptr || std::ferror(in) != 0;  // a closed stdin, a directory
  const std::string why = std::strerror(errno);
  if (in != nullptr && in != stdin) (void)std::fclose(in);
  if (failed) throw Failed(kUserError, "cannot read " + (file == "-" ? "stdin" : file) + ": " + why);
  return bytes;
}

std::string path_of(const Json& task) { return "/v1/tasks/" + percent_encode(text_of(task, "retry_id")); }

Failed no_such_task(const std::string& id) {
  return {kNotFound, "no task with retry-id or message-id '" + id + "'"};
}

std::optional<std::string> id_of_message(Api& api, const std::string& message_id) {
  const auto [task, alone] = newest_of_message(api, message_id);
  if (task.is_null()) return std::nullopt;
  if (!alone) throw several_tasks(message_id);
  return text_of(task, "retry_id");
}

Json find_task(Session& session, const std::string& id, bool one) {
  if (const auto task_id = TaskId::parse(id)) {
    auto task = session.api->get("/v1/tasks/" + task_id->str());
    if (task || task.error().kind != Error::Kind::not_found) return need(std::move(task));
  }
  const auto [task, alone] = newest_of_message(*session.api, id);
  if (task.is_null()) throw no_such_task(id);
  if (!alone && one) throw several_tasks(id);
  if (!alone)
    tell(
        fmt::format("rung: showing the newest task of message-id {0}; for all of them: rung list "
                    "--message-id {0}",
                    one_line(id)));
  return need(session.api->get(path_of(task)));
}

std::string next_of(Session& session, Json task) {
  const bool waits = state_of(task) == State::awaiting && time_of(task, "next_due_at");
  if (!task.contains("held") || (waits && !silence_of(task).is_object())) {
    if (auto details = session.api->get(path_of(task))) task = *std::move(details);
  }
  const std::string text = what_next(task, session.now);
  const Json& gate = part_of(task, "held");
  return gate.is_object() ? text + "; " + held_text(gate) : text;
}

Json result_json(const std::string& id, std::string_view result, const std::string& reason,
                 const Json& task) {
  return {{"retry_id", api::text_or_null(id)},
          {"result", result},
          {"reason", api::text_or_null(reason)},
          {"task", task}};
}

std::string changed_line(Session& session, const std::string& id, const Json& task,
                         const std::string& unchanged_because) {
  return fmt::format(
      "{}  {}{}\n", one_line(id), one_line(next_of(session, task)),
      unchanged_because.empty() ? "" : " (nothing to do: " + one_line(unchanged_because) + ")");
}

int tell_result(Session& session, const Json& result) {
  return print_answer(result, [&](const Json&) {
    return changed_line(session, text_of(result, "retry_id"), part_of(result, "task"),
                        text_of(result, "reason"));
  });
}

std::string held_text(const Json& json) {
  QueueGate gate;
  gate.queue = text_of(json, "queue");
  gate.state = text_of(json, "state");
  gate.until = time_of(json, "until");
  gate.reason = text_of(json, "reason");
  gate.by = text_of(json, "by");
  const bool waits = gate.state == "breaker_open";
  return api::gate_text(gate) +
         (waits ? ": `rung resume " + rabbit::shell_quote(gate.queue) + " --probe` tries one now" : "");
}

std::string cause_name(const Json& cause) {
  return error_line(text_of(cause, "error_type"), text_of(cause, "sample"));
}

}  // namespace rung::cli
