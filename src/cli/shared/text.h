// Output for people: aligned tables, times, durations, colours.
// Thread: pure functions, except Terminal::of_stdout(), which reads the process's state, and the style of
// times: main's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/base/json.h"
#include "src/core/base/time.h"
#include "src/core/task/task.h"

namespace rung::cli {

struct Terminal {
  bool colour = false;    // the terminal supports colour, and NO_COLOR is not set
  std::size_t width = 0;  // columns; 0 = not a terminal
  static Terminal of_stdout();
};

enum class Colour { none = 0, bold = 1, dim = 2, red = 31, green = 32, yellow = 33 };  // as in ECMA-48
std::string paint(std::string_view text, Colour colour, const Terminal& terminal = Terminal::of_stdout());
Colour colour_of(State state);
Colour colour_of(Outcome outcome);

// At most two units, largest first: "120ms", "4.2s", "12s", "4m12s", "3h05m", "2d3h". Never negative.
std::string humanise(Ms duration);
// "1,234,567".
std::string grouped(std::int64_t number);

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
// Of that member; "" without a time.
std::string moment_of(const api::Json& json, const char* name, EpochMs now);

// Terminal columns of `text` (wide characters count as two). REQUIRES: no control characters.
std::size_t width(std::string_view text);
// One line, safe for a terminal: escape_controls() of core/utf8.h.
std::string one_line(std::string_view text);
// The same, but keeps line breaks, and replaces a tab by two spaces; indents each line after the first by
// `indent`.
std::string lines(std::string_view text, std::size_t indent);
// "label         text", and a line end; further lines are below the text. "" without a text.
std::string detail(std::string_view label, std::string_view text);
// `text` in lines of at most `columns`, broken between words where that wastes less than a third of the line.
// At most `most` lines; the last one then ends with an ellipsis. 0 columns = one line.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns, std::size_t most);
// Shortened to `columns`, with an ellipsis. 0 = not shortened.
std::string shorten(std::string_view text, std::size_t columns);

class Table {
 public:
  enum class Align { left, right };
  struct Cell {
    Cell(std::string t, Colour c = Colour::none)
        : text(std::move(t)), colour(c) {}  // NOLINT: implicit by intent
    Cell(const char* t) : text(t) {}        // NOLINT: the same
    std::string text;
    Colour colour = Colour::none;
  };
  // What a row of an answer says.
  using CellOf = std::function<Cell(const api::Json& row)>;
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
  void row(std::vector<Cell> cells);
  // REQUIRES: each column has its cell.
  void add(const api::Json& row);
  // A line below the last row, across all columns.
  void note(const std::string& text, Colour colour = Colour::none);
  bool empty() const { return rows_.empty(); }
  // On a terminal the last column has at least kWrapped columns, and breaks its text into lines instead of
  // cutting it.
  void wrap_last() { wraps_ = true; }
  // Shortens or drops columns so that a line fits the terminal: first the last column, then those that allow
  // it. Without a terminal only the last column is shortened, to kLoose, if `cut` is set.
  std::string str(const Terminal& terminal = Terminal::of_stdout(), bool cut = true) const;

 private:
  static constexpr std::size_t kLoose = 72, kLeastOfLast = 12, kGap = 2, kWrapped = 40, kWrappedLines = 10;
  // The width of each column; 0 = dropped.
  std::vector<std::size_t> widths(const Terminal& terminal, bool cut) const;
  void fit(std::vector<std::size_t>& widths, std::size_t room) const;
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;  // a note is a row of one cell
  bool wraps_ = false;
};

// The text, or the number, of that name; "-" if there is none.
Table::CellOf text_cell(const char* name);
Table::CellOf number_cell(const char* name);
// relative(); "-" without a time.
Table::CellOf time_cell(const char* name, EpochMs now);

}  // namespace rung::cli
