// Output for people: aligned tables, facts, times, durations.
// Thread: pure functions, except terminal_width(), which reads the process's state, and the style of times:
// main's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/base/message.h"
#include "src/core/base/time.h"

namespace rung::cli {

// In columns, of stdout; 0 = it is no terminal.
std::size_t terminal_width();

// At most two units, largest first: "120ms", "12s", "4m12s", "3h5m", "2d3h". Never negative.
std::string humanise(Ms duration);

// How times are printed: relative to now, or with --utc as "2026-11-21T17:05:00Z". Set once, before the first
// output.
enum class TimeStyle { relative, utc };
void set_time_style(TimeStyle style);
TimeStyle time_style();
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

}  // namespace rung::cli
