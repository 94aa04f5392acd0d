// What people read: aligned tables, times, durations, colours.
// Thread: pure functions, but for Terminal::of_stdout(), which looks at the process.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/task.h"
#include "src/core/time.h"

namespace rung::cli {

struct Terminal {
  bool colour = false;    // a terminal that takes colour, and NO_COLOR is not set
  std::size_t width = 0;  // columns; 0 = not a terminal
  static Terminal of_stdout();
};

enum class Colour { none, green, yellow, red, dim, bold };
std::string paint(std::string_view text, Colour colour, const Terminal& terminal);
Colour colour_of(State state);
Colour colour_of(Outcome outcome);

// Two units at most, the largest first: "120ms", "4.2s", "12s", "4m12s", "3h05m", "2d3h". Never negative.
std::string humanise(Ms duration);
// "in 4m12s", "4m12s ago", "now" (within half a second).
std::string relative(EpochMs t, EpochMs now);

// Columns a terminal needs for `text` (wide characters count two); no control characters may be in it.
std::size_t width(std::string_view text);
// One line that is safe on a terminal: escape_controls() of core/utf8.h.
std::string one_line(std::string_view text);
// The same, but line breaks stay, and a tab is two blanks; each line after the first begins with `indent`
// blanks.
std::string lines(std::string_view text, std::size_t indent);
// Cut to `columns`, with an ellipsis where something was cut. 0 = not cut.
std::string shorten(std::string_view text, std::size_t columns);

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
    // Where the terminal is too narrow: it may be cut to so many columns (0 = never cut), ...
    std::size_t least = 0;
    // ... and then be left out, that with the largest number first (0 = never left out).
    int spare = 0;
  };
  struct Cell {
    Cell(std::string t, Colour c = Colour::none)
        : text(std::move(t)), colour(c) {}  // NOLINT: implicit by intent
    Cell(const char* t) : text(t) {}        // NOLINT: the same
    std::string text;
    Colour colour = Colour::none;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // REQUIRES: as many cells as columns. The text goes through one_line().
  void row(std::vector<Cell> cells);
  bool empty() const { return rows_.empty(); }
  // Columns are cut or left out so that a line fits the terminal: the last one, then those that say so.
  // Without a terminal only the last one is cut, to kLoose, where `cut` says so.
  std::string str(const Terminal& terminal, bool cut = true) const;

 private:
  static constexpr std::size_t kLoose = 72, kLeastOfLast = 12, kGap = 2;
  // How wide each column is shown; 0 = left out.
  std::vector<std::size_t> widths(const Terminal& terminal, bool cut) const;
  void fit(std::vector<std::size_t>& widths, std::size_t room) const;
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace rung::cli
