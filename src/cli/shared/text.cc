#include "src/cli/shared/text.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "levels/duration.h"
#include "plugin/rabbitmq/topology/attachment.h"
#include "src/api/queues/queues.h"
#include "src/cli/service/api.h"
#include "src/config/config.h"
#include "src/core/base/hex.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/base/utf8.h"

namespace rung::cli {
namespace {

constexpr std::string_view kEllipsis = "…";

// Not wcwidth(): it depends on the locale, and the C locale only covers ASCII.
std::size_t width_of(char32_t c) {
  if ((c >= 0x300 && c <= 0x36F) || (c >= 0x200B && c <= 0x200D) || (c >= 0xFE00 && c <= 0xFE0F)) return 0;
  const bool wide = (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) ||
                    (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
                    (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
                    (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD);
  return wide ? 2 : 1;
}

// How many bytes of the text fit into so many columns.
std::size_t fitting(std::string_view text, std::size_t columns) {
  std::size_t used = 0, at = 0;
  while (at < text.size()) {
    std::size_t next = at;
    used += width_of(next_char(text, next));
    if (used > columns) break;
    at = next;
  }
  return at;
}

// `inner`: of a list or an object; not explained then.
std::string value_text(const Json& value, EpochMs now, bool inner = false) {
  if (value.is_null()) return {};
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    const auto time = inner ? std::nullopt : from_rfc3339(text);
    return time ? moment(*time, now) : text;
  }
  if (inner || value.is_number()) return api::dump(value);
  std::string out;
  for (const auto& [name, one] : value.items()) {
    if (one.is_null()) continue;
    out += (out.empty() ? "" : "\n") + (value.is_object() ? name + ": " : "") + value_text(one, now, true);
  }
  return out;
}

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
  if (part_of(task, "body_stored") == false) return "; " + not_stored_text(text_of(task, "last_error"));
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

std::size_t terminal_width() {
  if (isatty(STDOUT_FILENO) == 0) return 0;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string humanise(Ms duration) {
  using std::chrono::hours, std::chrono::minutes, std::chrono::seconds;
  duration = std::max(duration, Ms{0});
  const Ms unit = duration >= hours{24}    ? hours{1}
                  : duration >= hours{1}   ? minutes{1}
                  : duration >= seconds{1} ? seconds{1}
                                           : Ms{1};
  return levels::format_duration(duration - duration % unit);
}

std::string age(EpochMs since, EpochMs now) {
  return times_in_utc ? relative(since, now) : humanise(now - since);
}

std::string moment(EpochMs t, EpochMs now) {
  const std::string text = format_utc(t) + " UTC";
  return times_in_utc ? text : text + " (" + relative(t, now) + ")";
}

std::string relative(EpochMs t, EpochMs now) {
  if (times_in_utc) return to_rfc3339(t).substr(0, 19) + "Z";
  const Ms away = t - now;
  if (away < Ms{500} && away > Ms{-500}) return "now";
  return away.count() > 0 ? "in " + humanise(away) : humanise(-away) + " ago";
}

std::size_t width(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) columns += width_of(next_char(text, at));
  return columns;
}

std::string one_line(std::string_view text) { return escape_controls(text); }

std::string lines(std::string_view text, std::size_t indent) {
  std::string out;
  while (true) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (end != std::string_view::npos && line.ends_with('\r')) line.remove_suffix(1);
    for (std::size_t tab = 0; (tab = line.find('\t')) != std::string_view::npos; line.remove_prefix(tab + 1))
      out += escape_controls(line.substr(0, tab)) + "  ";
    out += escape_controls(line);
    if (end == std::string_view::npos) return out;
    out += "\n" + std::string(indent, ' ');
    text.remove_prefix(end + 1);
  }
}

std::string facts_text(const api::Json& object, EpochMs now) {
  constexpr std::size_t kLabel = 20;
  std::string out;
  for (const auto& [name, value] : object.items()) {
    const std::string text = value_text(value, now);
    if (text.empty()) continue;
    std::string label = name;
    std::ranges::replace(label, '_', ' ');
    label.resize(std::max(kLabel, label.size() + 1), ' ');
    out += one_line(label) + lines(text, kLabel) + "\n";
  }
  return out;
}

std::string shorten(std::string_view text, std::size_t columns) {
  if (columns == 0 || width(text) <= columns) return std::string(text);
  return std::string(text.substr(0, fitting(text, columns - 1))) + std::string(kEllipsis);
}

Table::Table(std::vector<Column> columns, const api::Json& rows) : columns_(std::move(columns)) {
  for (const api::Json& one : rows) add(one);
}

void Table::row(std::vector<std::string> cells) {
  RUNG_REQUIRE(cells.size() == columns_.size());
  for (std::string& cell : cells) cell = one_line(cell);
  rows_.push_back(std::move(cells));
}

void Table::add(const api::Json& answered) {
  std::vector<std::string> cells;
  for (const Column& column : columns_) cells.push_back(column.cell(answered));
  row(std::move(cells));
}

void Table::note(const std::string& text) {
  RUNG_REQUIRE(columns_.size() > 1);
  rows_.push_back({one_line(text)});
}

Table& Table::whole_last() {
  whole_last_ = true;
  return *this;
}

Table::CellOf text_cell(const char* name) {
  return [name](const api::Json& row) {
    const std::string text = value_text(part_of(row, name), {}, true);
    return text.empty() ? "-" : text;
  };
}

Table::CellOf time_cell(const char* name, EpochMs now) {
  return [name, now](const api::Json& row) {
    const auto time = time_of(row, name);
    return time ? relative(*time, now) : "-";
  };
}

Table::CellOf utc_cell(const char* name) {
  return [name](const api::Json& row) {
    const auto time = time_of(row, name);
    return time ? format_utc(*time) : "-";
  };
}

// Shortens columns until a line fits into `room`; drops columns if that is not enough.
void Table::fit(std::vector<std::size_t>& widths, std::size_t room) const {
  const std::size_t last = widths.size() - 1;
  const std::vector<std::size_t> wanted = widths;
  for (;;) {
    std::size_t used = 0;
    for (const std::size_t w : widths) used += w > 0 ? w + kGap : 0;
    std::size_t over = used > room + kGap ? used - room - kGap : 0;
    const auto cut = [&](std::size_t i, std::size_t least) {
      const std::size_t less = std::min(over, widths[i] > least ? widths[i] - least : 0);
      widths[i] -= less;
      over -= less;
    };
    cut(last, whole_last_ ? kLeastOfWhole : kLeastOfLast);
    for (std::size_t i = 0; i < last; ++i) {
      if (columns_[i].least > 0 && widths[i] > 0)
        cut(i, std::max(columns_[i].least, width(columns_[i].title)));
    }
    if (over == 0) return;
    const auto spare = [&](std::size_t i) { return widths[i] > 0 ? columns_[i].spare : 0; };
    std::size_t out = 0;
    for (std::size_t i = 0; i < last; ++i) out = spare(i) > spare(out) ? i : out;
    if (spare(out) == 0) return;
    for (std::size_t i = 0; i <= last; ++i) widths[i] = widths[i] == 0 || i == out ? 0 : wanted[i];
  }
}

std::vector<std::size_t> Table::widths(std::size_t terminal) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(width(column.title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; row.size() == columns_.size() && i < row.size(); ++i)
      widths[i] = std::max(widths[i], width(row[i]));
  }
  if (terminal > 0) fit(widths, terminal);
  if (terminal == 0 && !whole_last_) widths.back() = std::min(widths.back(), kLoose);
  return widths;
}

std::string Table::str(std::size_t terminal) const {
  const std::vector<std::size_t> room = widths(terminal);
  std::string out;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (room[i] == 0) continue;
      const bool whole = whole_last_ && i + 1 == cells.size();
      const std::string cell = whole ? cells[i] : shorten(cells[i], room[i]);
      const std::string pad(room[i] - std::min(room[i], width(cell)), ' ');
      if (!text.empty()) text += std::string(kGap, ' ');
      text += columns_[i].align == Align::right ? pad + cell : cell + pad;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  line(titles);
  for (const std::vector<std::string>& row : rows_) {
    if (row.size() == columns_.size()) line(row);
    if (row.size() < columns_.size()) out += row.front() + "\n";
  }
  return out;
}

// --- a task

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
  if (late >= Ms{1000} && !times_in_utc) return humanise(late) + " late";
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
