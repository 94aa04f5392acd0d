#include "src/cli/shared/text.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "src/cli/service/api.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/base/utf8.h"

namespace rung::cli {
namespace {

constexpr std::string_view kEllipsis = "…";

TimeStyle style_of_times = TimeStyle::relative;

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

}  // namespace

Terminal Terminal::of_stdout() {
  Terminal terminal;
  if (isatty(STDOUT_FILENO) == 0) return terminal;
  winsize size{};
  terminal.width = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  terminal.colour =
      (no_colour == nullptr || *no_colour == '\0') && term != nullptr && std::string_view(term) != "dumb";
  return terminal;
}

std::string paint(std::string_view text, Colour colour, const Terminal& terminal) {
  if (!terminal.colour || colour == Colour::none || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", static_cast<int>(colour), text);
}

Colour colour_of(State state) {
  if (state == State::scheduled || state == State::publishing || state == State::awaiting)
    return Colour::yellow;
  if (state == State::succeeded) return Colour::green;
  return state == State::parked ? Colour::red : Colour::dim;
}

Colour colour_of(Outcome outcome) {
  if (outcome == Outcome::pending) return Colour::yellow;
  return outcome == Outcome::succeeded ? Colour::green : Colour::red;
}

std::string humanise(Ms duration) {
  const std::int64_t ms = std::max<std::int64_t>(duration.count(), 0);
  const std::int64_t s = ms / 1000;
  if (ms < 1000) return fmt::format("{}ms", ms);
  if (ms < 10'000) {
    const std::int64_t tenth = ms % 1000 / 100;
    return tenth == 0 ? fmt::format("{}s", s) : fmt::format("{}.{}s", s, tenth);
  }
  if (s < 60) return fmt::format("{}s", s);
  const auto two = [](std::int64_t large, const char* unit, std::int64_t small, const char* small_unit) {
    return small == 0 ? fmt::format("{}{}", large, unit)
                      : fmt::format("{}{}{:02}{}", large, unit, small, small_unit);
  };
  if (s < 3600) return two(s / 60, "m", s % 60, "s");
  if (s < 86400) return two(s / 3600, "h", s % 3600 / 60, "m");
  const std::int64_t hours = s % 86400 / 3600;
  return hours == 0 ? fmt::format("{}d", s / 86400) : fmt::format("{}d{}h", s / 86400, hours);
}

void set_time_style(TimeStyle style) { style_of_times = style; }
TimeStyle time_style() { return style_of_times; }

std::string age(EpochMs since, EpochMs now) {
  return time_style() == TimeStyle::utc ? relative(since, now) : humanise(now - since);
}

std::string moment(EpochMs t, EpochMs now) {
  const std::string text = format_utc(t) + " UTC";
  return time_style() == TimeStyle::utc ? text : text + " (" + relative(t, now) + ")";
}

std::string moment_of(const api::Json& json, const char* name, EpochMs now) {
  const auto time = time_of(json, name);
  return time ? moment(*time, now) : "";
}

std::string relative(EpochMs t, EpochMs now) {
  if (time_style() == TimeStyle::utc) return to_rfc3339(t).substr(0, 19) + "Z";
  const Ms away = t - now;
  if (away < Ms{500} && away > Ms{-500}) return "now";
  return away.count() > 0 ? "in " + humanise(away) : humanise(-away) + " ago";
}

std::size_t width(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) columns += width_of(next_char(text, at));
  return columns;
}

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3; at -= 3) text.insert(at - 3, ",");
  return text;
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

std::string detail(std::string_view label, std::string_view text) {
  constexpr std::size_t kLabel = 14;
  if (text.empty()) return {};
  return paint(label, Colour::dim) + std::string(kLabel - std::min(kLabel, label.size()), ' ') +
         lines(text, kLabel) + "\n";
}

std::string shorten(std::string_view text, std::size_t columns) {
  if (columns == 0 || width(text) <= columns) return std::string(text);
  return std::string(text.substr(0, fitting(text, columns - 1))) + std::string(kEllipsis);
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns, std::size_t most) {
  std::vector<std::string> out;
  if (columns == 0) return {std::string(text)};
  while (width(text) > columns) {
    if (out.size() + 1 == most) {
      out.push_back(shorten(text, columns));
      return out;
    }
    std::size_t at = fitting(text, columns);
    if (at == 0) next_char(text, at);  // a wide character in one column
    const std::size_t blank = text.substr(0, at + 1).rfind(' ');
    const bool between_words = blank != std::string_view::npos && blank >= at - at / 3;
    if (between_words) at = blank;
    out.emplace_back(text.substr(0, at));
    text.remove_prefix(between_words ? at + 1 : at);
  }
  out.emplace_back(text);
  return out;
}

void Table::note(const std::string& text, Colour colour) {
  RUNG_REQUIRE(columns_.size() > 1);
  rows_.push_back({Cell(one_line(text), colour)});
}

Table::Table(std::vector<Column> columns, const api::Json& rows) : columns_(std::move(columns)) {
  for (const api::Json& one : rows) add(one);
}

void Table::row(std::vector<Cell> cells) {
  RUNG_REQUIRE(cells.size() == columns_.size());
  for (Cell& cell : cells) cell.text = one_line(cell.text);
  rows_.push_back(std::move(cells));
}

void Table::add(const api::Json& answered) {
  std::vector<Cell> cells;
  for (const Column& column : columns_) cells.push_back(column.cell(answered));
  row(std::move(cells));
}

Table::CellOf text_cell(const char* name) {
  return [name](const api::Json& row) {
    const std::string text = text_of(row, name);
    return Table::Cell(text.empty() ? "-" : text);
  };
}
Table::CellOf number_cell(const char* name) {
  return [name](const api::Json& row) { return Table::Cell(std::to_string(number_of(row, name))); };
}

Table::CellOf time_cell(const char* name, EpochMs now) {
  return [name, now](const api::Json& row) {
    const auto time = time_of(row, name);
    return Table::Cell(time ? relative(*time, now) : "-");
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
    cut(last, wraps_ ? kWrapped : kLeastOfLast);
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

std::vector<std::size_t> Table::widths(const Terminal& terminal, bool cut) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(width(column.title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; row.size() == columns_.size() && i < row.size(); ++i)
      widths[i] = std::max(widths[i], width(row[i].text));
  }
  if (cut && terminal.width > 0) fit(widths, terminal.width);
  if (cut && terminal.width == 0) widths.back() = std::min(widths.back(), kLoose);
  return widths;
}

std::string Table::str(const Terminal& terminal, bool cut) const {
  const std::vector<std::size_t> room = widths(terminal, cut);
  const std::size_t last = columns_.size() - 1;
  const bool wraps = wraps_ && cut && terminal.width > 0;
  std::size_t indent = 0;
  for (std::size_t i = 0; i < last; ++i) indent += room[i] > 0 ? room[i] + kGap : 0;
  std::string out;
  const auto line = [&](const std::vector<Cell>& cells) {
    std::string text, below;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (room[i] == 0) continue;
      std::vector<std::string> parts = {shorten(cells[i].text, room[i])};
      if (wraps && i == last) parts = wrapped(cells[i].text, room[i], kWrappedLines);
      const std::string painted = paint(parts.front(), cells[i].colour, terminal);
      const std::string pad(room[i] - width(parts.front()), ' ');
      if (!text.empty()) text += std::string(kGap, ' ');
      text += columns_[i].align == Align::right ? pad + painted : painted + pad;
      for (std::size_t part = 1; part < parts.size(); ++part)
        below += std::string(indent, ' ') + paint(parts[part], cells[i].colour, terminal) + "\n";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n" + below;
  };
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title, Colour::bold);
  line(titles);
  for (const std::vector<Cell>& row : rows_) {
    if (row.size() == columns_.size()) {
      line(row);
      continue;
    }
    const Cell& note = row.front();
    for (const std::string& part : wrapped(note.text, cut ? terminal.width : 0, kWrappedLines))
      out += paint(part, note.colour, terminal) + "\n";
  }
  return out;
}

}  // namespace rung::cli
