#include "src/cli/text.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "src/core/utf8.h"

namespace rung::cli {
namespace {

constexpr std::string_view kEllipsis = "…";

// REQUIRES: text is UTF-8, at < text.size(). Moves `at` on.
char32_t next_char(std::string_view text, std::size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at++]);
  int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
  auto c = static_cast<char32_t>(more == 3   ? lead & 0x07
                                 : more == 2 ? lead & 0x0F
                                 : more == 1 ? lead & 0x1F
                                             : lead);
  for (; more > 0 && at < text.size(); --more) c = (c << 6) | (static_cast<unsigned char>(text[at++]) & 0x3F);
  return c;
}

// Not wcwidth(): its answers hang on the locale, and C knows nothing beyond ASCII.
std::size_t width_of(char32_t c) {
  if ((c >= 0x300 && c <= 0x36F) || (c >= 0x200B && c <= 0x200D) || (c >= 0xFE00 && c <= 0xFE0F)) return 0;
  const bool wide = (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) ||
                    (c >= 0xAC00 && c <= 0xD7A3) || (c >= 0xF900 && c <= 0xFAFF) ||
                    (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
                    (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD);
  return wide ? 2 : 1;
}

// C0, DEL and C1 move cursors; the bidirectional controls turn text around.
bool is_unsafe(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069) || c == 0x2028 || c == 0x2029;
}

std::string visible(std::string_view text, bool keep_breaks, std::size_t indent) {
  const std::string clean = clean_utf8(text, text.size() * 3);
  std::string out;
  for (std::size_t at = 0; at < clean.size();) {
    const std::size_t start = at;
    const char32_t c = next_char(clean, at);
    if (!is_unsafe(c)) {
      out.append(clean, start, at - start);
    } else if (c == '\n') {
      out += keep_breaks ? "\n" + std::string(indent, ' ') : "\\n";
    } else if (c == '\t') {
      out += keep_breaks ? "  " : "\\t";
    } else if (c == '\r') {
      out += keep_breaks ? "" : "\\r";
    } else {
      const auto number = static_cast<unsigned>(c);
      out += c < 0x100 ? fmt::format("\\x{:02x}", number) : fmt::format("\\u{:04x}", number);
    }
  }
  return out;
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
  int code = 0;
  switch (colour) {
    case Colour::none:
      break;
    case Colour::green:
      code = 32;
      break;
    case Colour::yellow:
      code = 33;
      break;
    case Colour::red:
      code = 31;
      break;
    case Colour::dim:
      code = 2;
      break;
    case Colour::bold:
      code = 1;
      break;
  }
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

Colour colour_of(State state) {
  switch (state) {
    case State::scheduled:
    case State::publishing:
    case State::awaiting:
      return Colour::yellow;
    case State::succeeded:
      return Colour::green;
    case State::parked:
      return Colour::red;
    case State::cancelled:
    case State::discarded:
      return Colour::dim;
  }
  return Colour::none;
}

Colour colour_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::pending:
      return Colour::yellow;
    case Outcome::succeeded:
      return Colour::green;
    case Outcome::failed:
    case Outcome::timed_out:
    case Outcome::returned:
      return Colour::red;
  }
  return Colour::none;
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

std::string relative(EpochMs t, EpochMs now) {
  const Ms away = t - now;
  if (away < Ms{500} && away > Ms{-500}) return "now";
  return away.count() > 0 ? "in " + humanise(away) : humanise(-away) + " ago";
}

std::size_t width(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) columns += width_of(next_char(text, at));
  return columns;
}

std::string one_line(std::string_view text) { return visible(text, false, 0); }
std::string lines(std::string_view text, std::size_t indent) { return visible(text, true, indent); }

std::string shorten(std::string_view text, std::size_t columns) {
  if (columns == 0 || width(text) <= columns) return std::string(text);
  std::size_t used = 0, at = 0;
  while (at < text.size()) {
    std::size_t next = at;
    const std::size_t more = width_of(next_char(text, next));
    if (used + more > columns - 1) break;
    used += more;
    at = next;
  }
  return std::string(text.substr(0, at)) + std::string(kEllipsis);
}

void Table::row(std::vector<Cell> cells) {
  for (Cell& cell : cells) cell.text = one_line(cell.text);
  rows_.push_back(std::move(cells));
}

std::string Table::str(const Terminal& terminal, bool cut) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(width(column.title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i].text));
  }
  std::size_t most = 0;  // of the last column
  if (cut) {
    std::size_t before = 0;
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) before += widths[i] + 2;
    most = terminal.width == 0
               ? kLoose
               : std::max<std::size_t>(terminal.width > before ? terminal.width - before : 0, 12);
  }

  std::string out;
  const auto line = [&](const auto& text_of, const auto& colour_at) {
    std::string text;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool last = i + 1 == columns_.size();
      const std::string cell = last ? shorten(text_of(i), most) : text_of(i);
      const std::string painted = paint(cell, colour_at(i), terminal);
      const std::size_t used = width(cell);
      const std::string pad(widths[i] > used ? widths[i] - used : 0, ' ');
      text += columns_[i].align == Align::right ? pad + painted : painted + pad;
      if (!last) text += "  ";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line([&](std::size_t i) { return columns_[i].title; }, [](std::size_t) { return Colour::bold; });
  for (const auto& row : rows_) {
    line([&](std::size_t i) { return row[i].text; }, [&](std::size_t i) { return row[i].colour; });
  }
  return out;
}

}  // namespace rung::cli
