#include "src/cli/shared/one_task.h"

#include <fmt/format.h>

#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
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

}  // namespace

int open_task(const TaskOptions& options, Session& session, TaskRow& task) {
  if (const int code = open_service(options.common, session); code != kSuccess) return code;
  bool more = false;
  auto found = find_task(*session.service.tasks, options.id, &more);
  if (!found) return report_error(found.error());
  task = *std::move(found);
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
