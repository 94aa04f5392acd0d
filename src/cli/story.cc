#include "src/cli/story.h"

#include <fmt/format.h>

#include "src/cli/text.h"
#include "src/cli/when.h"
#include "src/core/headers.h"
#include "src/core/message_json.h"

namespace rung::cli {
namespace {

std::string at(EpochMs t, EpochMs now) { return fmt::format("{} UTC ({})", format_utc(t), relative(t, now)); }

std::string tries(int attempts) {
  if (attempts == 0) return "before its first retry";
  return fmt::format("after {} {}", attempts, attempts == 1 ? "retry" : "retries");
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
Json time_or_null(const std::optional<EpochMs>& t) { return t ? Json(rfc3339(*t)) : Json(nullptr); }

std::string awaiting(const Task& task, const RuleBook& rules, EpochMs now) {
  std::string text = fmt::format("awaiting: attempt {} (level {} of {}) is in queue {}", task.attempt,
                                 task.level, task.levels, task.queue);
  if (!task.next_at) return text;
  const bool success = rules.queue(task.queue).silence.means == Silence::Means::success;
  return text + fmt::format("; silence until {} means {}", at(*task.next_at, now),
                            success ? "success" : "failure, and the next level");
}

std::string succeeded(const Task& task, EpochMs now) {
  std::string text = "succeeded " + tries(task.attempt);
  if (task.finished_by == FinishedBy::presumed) text += ", presumed: nobody said otherwise";
  if (task.finished_by == FinishedBy::reported) text += ", reported";
  if (!task.finished_at) return text;
  return text + fmt::format(", {} after the first failure, at {}",
                            humanise(*task.finished_at - task.first_failed_at), at(*task.finished_at, now));
}

std::string parked(const Task& task, EpochMs now) {
  std::string text = "parked " + tries(task.attempt);
  if (task.finished_at) text += ", at " + at(*task.finished_at, now);
  if (task.queue.empty()) return text + "; nothing says to which queue it belongs";
  return text + fmt::format("; `rung retry {}` sends it to {} again", task.id.str(), task.queue);
}

}  // namespace

std::string what_next(const TaskRow& row, const RuleBook& rules, EpochMs now) {
  const Task& task = row.task;
  switch (task.state) {
    case State::scheduled: {
      std::string text = fmt::format("scheduled: level {} of {}", task.level, task.levels);
      if (task.next_at) text += ", due " + at(*task.next_at, now);
      return text;
    }
    case State::publishing:
      return fmt::format("publishing: attempt {} (level {} of {}) is on its way to queue {}", task.attempt,
                         task.level, task.levels, task.queue);
    case State::awaiting:
      return awaiting(task, rules, now);
    case State::succeeded:
      return succeeded(task, now);
    case State::parked:
      return parked(task, now);
    case State::cancelled:
    case State::discarded:
      break;
  }
  std::string text = std::string(to_word(task.state)) + " " + tries(task.attempt);
  if (task.finished_at) text += ", at " + at(*task.finished_at, now);
  return text;
}

std::string due_cell(const Task& task, EpochMs now) {
  if (!task.next_at) return "-";
  const Ms away = *task.next_at - now;
  switch (task.state) {
    case State::scheduled:
    case State::publishing:
      if (away <= Ms{-1000}) return humanise(-away) + " late";
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
  const Failure failure = read_failure(message, "", "");
  if (failure.error_type.empty() || failure.error.starts_with(failure.error_type)) return failure.error;
  return failure.error_type + ": " + failure.error;
}

Json to_json(const TaskRow& row) {
  const Task& t = row.task;
  return {{"retry_id", t.id.str()},
          {"kind", to_word(t.kind)},
          {"queue", t.queue},
          {"exchange", t.exchange},
          {"routing_key", t.routing_key},
          {"tag", text_or_null(t.tag)},
          {"message_id", text_or_null(t.message_id)},
          {"state", to_word(t.state)},
          {"attempt", t.attempt},
          {"level", t.level},
          {"levels", t.levels},
          {"ladder", t.ladder},
          {"next_due_at", time_or_null(t.next_at)},
          {"first_failed_at", rfc3339(t.first_failed_at)},
          {"created_at", rfc3339(t.created_at)},
          {"finished_at", time_or_null(t.finished_at)},
          {"finished_by", text_or_null(std::string(to_word(t.finished_by)))},
          {"last_error", text_or_null(t.last_error)},
          {"body_bytes", t.body_bytes},
          {"shard", t.shard},
          {"node", text_or_null(row.node)}};
}

Json to_json(const AttemptRow& row) {
  const Attempt& a = row.attempt;
  Json late = nullptr;
  if (a.published_at) late = (*a.published_at - a.due_at).count();
  return {{"retry_id", a.task.str()},
          {"queue", row.queue},
          {"message_id", text_or_null(row.message_id)},
          {"attempt", a.attempt},
          {"level", a.level},
          {"due_at", rfc3339(a.due_at)},
          {"published_at", time_or_null(a.published_at)},
          {"late_ms", late},
          {"outcome", to_word(a.outcome)},
          {"outcome_at", time_or_null(a.outcome_at)},
          {"error", text_or_null(a.error)},
          {"node", text_or_null(row.node)}};
}

std::string dump(const Json& json, bool pretty) {
  return json.dump(pretty ? 2 : -1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace rung::cli
