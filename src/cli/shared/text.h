// Output for people: aligned tables, facts, times, durations; what is said of a task.
// Thread: pure functions, except terminal_width(), which reads the process's state, and times_in_utc: main's,
// set before the first output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/base/message.h"
#include "src/cli/shared/command.h"
#include "src/core/base/time.h"

namespace rung::cli {

// In columns, of stdout; 0 = it is no terminal.
std::size_t terminal_width();

// At most two units, largest first: "120ms", "12s", "4m12s", "3h5m", "2d3h". Never negative.
std::string humanise(Ms duration);

// Whether times are printed as "2026-11-21T17:05:00Z", not relative to now: --utc.
inline bool times_in_utc = false;
// "in 4m12s", "4m12s ago", "now" (within half a second); with --utc the time.
std::string relative(EpochMs t, EpochMs now);
// "4m12s": how long ago; with --utc the time.
std::string age(EpochMs since, EpochMs now);
// "2026-11-21 17:05:00.000 UTC (in 4m12s)"; with --utc without what is in parentheses.
std::string moment(EpochMs t, EpochMs now);

// Terminal columns of `text` (wide characters count as two). REQUIRES: no control characters.
std::size_t width(std::string_view text);
// One line, safe for a terminal: escape_controls() of core/utf8.h.
std::string one_line(std::string_view text);
// The same, but keeps line breaks, and replaces a tab by two spaces; indents each line after the first by
// `indent`.
std::string lines(std::string_view text, std::size_t indent);
// A line for each member that has a value: its name, without underscores, and the value. Of a list and an
// object, a line for each of theirs.
std::string facts_text(const api::Json& object, EpochMs now);
// Shortened to `columns`, with an ellipsis. 0 = not shortened.
std::string shorten(std::string_view text, std::size_t columns);

class Table {
 public:
  enum class Align { left, right };
  // What a row of an answer says.
  using CellOf = std::function<std::string(const api::Json& row)>;
  struct Column {
    std::string title;
    Align align = Align::left;
    // If the terminal is too narrow, the column can be shortened to this width (0 = never), ...
    std::size_t least = 0;
    // ... and then be dropped, the largest number first (0 = never).
    int spare = 0;
    CellOf cell = {};  // of rows that are added as they were answered
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // REQUIRES: each column has its cell.
  Table(std::vector<Column> columns, const api::Json& rows);
  // REQUIRES: as many cells as columns. Cells are passed through one_line().
  void row(std::vector<std::string> cells);
  // REQUIRES: each column has its cell.
  void add(const api::Json& row);
  // A line below the last row, across all columns.
  void note(const std::string& text);
  bool empty() const { return rows_.empty(); }
  // The last column is never shortened: the terminal breaks its lines.
  Table& whole_last();
  // Shortens or drops columns so that a line fits the terminal: first the last column, then those that allow
  // it. Without a terminal only the last column is shortened, to kLoose.
  std::string str(std::size_t terminal = terminal_width()) const;

 private:
  static constexpr std::size_t kLoose = 72, kLeastOfLast = 12, kLeastOfWhole = 40, kGap = 2;
  // The width of each column; 0 = dropped.
  std::vector<std::size_t> widths(std::size_t terminal) const;
  void fit(std::vector<std::size_t>& widths, std::size_t room) const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // a note is a row of one cell
  bool whole_last_ = false;
};

// The text or the number of that name, or yes or no; "-" if there is none.
Table::CellOf text_cell(const char* name);
// relative(), or in UTC; "-" without a time.
Table::CellOf time_cell(const char* name, EpochMs now);
Table::CellOf utc_cell(const char* name);

// --- a task, for people and for scripts; and the one that a command is about. Thread: main's, for what
// prints or asks.

// One line: what the task waits for, or how it ended: "scheduled: level 4 of 9, attempt 3 to orders, due
// 2026-... (in 9m12s)". What silence means is known of the details of a task, or if the task has a silence of
// its own.
std::string what_next(const Json& task, EpochMs now);

// The task's target, for one column of a list: "orders", "shop > order.close", "-".
std::string destination(const Json& task);

// A short form of what_next, for one column: "in 4m12s", "3s late", "silence in 2m".
std::string due_cell(const Json& task, EpochMs now);

// Never throws: invalid UTF-8 is replaced.
std::string dump(const Json& json, bool pretty = true);
int print_json(const Json& json);  // to stdout, and a line end; returns kSuccess
// With --json the answer, else its text; returns kSuccess.
int print_answer(const Json& answer, const std::function<std::string(const Json&)>& text);

// "\nmore tasks match: add --cursor ... for the next page\n"; "" for the last page.
std::string more_text(const std::string& what, const Json& page);

// All of a file's bytes; "-" = stdin.
std::string read_bytes(const std::string& file);

// "/v1/tasks/249107395289088".
std::string path_of(const Json& task);
// The retry-id of the task with this message-id; nullopt: there is none. The command ends if several have it.
std::optional<std::string> id_of_message(Api& api, const std::string& message_id);
Failed no_such_task(const std::string& id);
// The details of a task by its retry-id or, if there is none, by message-id: then of the newest, and if there
// are others that is said, or with `one` the command ends.
Json find_task(Session& session, const std::string& id, bool one = false);

// "queue orders: breaker open until ...": what holds tasks back, and the command that ends it.
std::string held_text(const Json& gate);
// what_next(), and what holds it back; asks for what the task does not say of it.
std::string next_of(Session& session, Json task);
// The same of a change for scripts: {retry_id, result, reason, task}.
Json result_json(const std::string& id, std::string_view result, const std::string& reason, const Json& task);
// Prints that of a task that was created, or was there; returns kSuccess.
int tell_result(Session& session, const Json& result);
// What a change of a task prints: its retry-id, next_of() and, if it changed nothing, why; a line.
std::string changed_line(Session& session, const std::string& id, const Json& task,
                         const std::string& unchanged_because);

// Of a cause, for people: its type, and the first line of its error.
std::string cause_name(const Json& cause);

}  // namespace rung::cli
