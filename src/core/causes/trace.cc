#include "src/core/causes/trace.h"

#include <algorithm>
#include <array>
#include <vector>

#include "src/core/causes/frames.h"
#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

constexpr std::size_t kMostLines = 600;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t from = 0; from < text.size() && out.size() < kMostLines;) {
    const std::size_t to = std::min(text.find('\n', from), text.size());
    out.push_back(text.substr(from, to - from));
    from = to + 1;
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  const std::size_t from = text.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\r") - from + 1);
}

// What may stand before the type.
constexpr auto kBefore = std::to_array<std::string_view>(
    {"Caused by: ", "Suppressed: ", "---> ", "Unhandled exception. ", "Unhandled Exception: ", "Uncaught ",
     "uncaught ", "PHP Fatal error:  ", "PHP Fatal error: ", "Fatal error: ", "[cause]: ", "** ", "In ",
     "Error: Uncaught ", "terminate called after throwing an instance of "});

struct Header {
  std::string type;
  std::string_view message;
};

// "java.lang.IllegalStateException: no stock"; the type is one word that looks like a class.
std::optional<Header> header_of(std::string_view line) {
  line = trimmed(line);
  const bool elixir = line.starts_with("** (");
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view before : kBefore) {
      if (!line.starts_with(before)) continue;
      line = trimmed(line.substr(before.size()));
      again = true;
    }
    if (line.starts_with("Exception in thread \"")) {
      const std::size_t end = line.find("\" ", 21);
      if (end == std::string_view::npos) return std::nullopt;
      line = trimmed(line.substr(end + 2));
      again = true;
    }
  }
  if (elixir && line.starts_with('(')) {  // Elixir: (KeyError) key :x not found
    const std::size_t end = line.find(')');
    if (end == std::string_view::npos || end < 3) return std::nullopt;
    return Header{lowered(line.substr(1, end - 1)), trimmed(line.substr(end + 1))};
  }
  std::size_t end = line.find_first_of(": (");
  if (end != std::string_view::npos && line.substr(end).starts_with("::"))
    end = line.find_first_of(" (", end);
  std::string_view type = line.substr(0, end);
  if (type.ends_with(':')) type.remove_suffix(1);
  if (type.size() < 3 || type.size() > 200) return std::nullopt;
  const bool name = std::ranges::all_of(type, [](char c) {
    return is_letter(c) || is_digit_byte(c) || std::string_view("._$\\:`+").find(c) != std::string_view::npos;
  });
  const bool upper = std::ranges::any_of(type, [](char c) { return c >= 'A' && c <= 'Z'; });
  const bool ends = end == std::string_view::npos;
  const bool message = !ends && (line[end] == ':' || line[end] == '(' || line.substr(end).starts_with(" ["));
  const bool exception =
      type.find("Error") != std::string_view::npos || type.find("Exception") != std::string_view::npos ||
      type.find("Failure") != std::string_view::npos || type.find("Throwable") != std::string_view::npos ||
      type.find('.') != std::string_view::npos || type.find('\\') != std::string_view::npos ||
      type.find("::") != std::string_view::npos || ends;
  if (!name || !upper || !(ends || message) || !exception) return std::nullopt;
  std::string_view rest = ends ? std::string_view() : line.substr(end);
  while (!rest.empty() && (rest[0] == ':' || rest[0] == ' ')) rest.remove_prefix(1);
  return Header{lowered(type), rest};
}

// One exception and its frames.
struct Section {
  std::optional<Header> header;
  std::string frame;
  int frames = 0;
};

void add_frame(Section& section, const Frame& frame) {
  ++section.frames;
  if (frame.own && (section.frame.empty() || frame.innermost_last)) section.frame = frame.name;
}

bool begins_section(std::string_view line) {
  const std::string_view text = trimmed(line);
  return text.starts_with("Caused by: ") || text.starts_with("[cause]: ") || text.starts_with("---> ");
}

// Python: the exception stands after its frames. Ruby: "x.rb:12:in `m': message (Type)".
std::optional<Header> header_after(const std::vector<std::string_view>& lines, std::size_t last_frame) {
  for (std::size_t i = last_frame + 1; i < std::min(lines.size(), last_frame + 6); ++i) {
    if (lines[i].empty() || lines[i][0] == ' ' || lines[i][0] == '\t') continue;
    if (auto header = header_of(lines[i])) return header;
    const std::string_view line = trimmed(lines[i]);  // "requests.exceptions.Timeout", "KeyError"
    if (line.find(' ') == std::string_view::npos && is_name(line)) return Header{lowered(line), {}};
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<Header> ruby_header(std::string_view line) {
  const std::size_t in = line.find(":in ");
  const std::size_t quote = in == std::string_view::npos ? in : line.find("': ", in);
  if (quote == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(quote + 3);
  const std::size_t open = rest.find_last_of('(');
  if (open == std::string_view::npos || !rest.ends_with(')')) return std::nullopt;
  return Header{lowered(rest.substr(open + 1, rest.size() - open - 2)), rest.substr(0, open)};
}

// The exception that was thrown, before the first frame: the nearest line that looks like one.
std::optional<Header> header_before(const std::vector<std::string_view>& lines, std::size_t first_frame) {
  for (std::size_t i = first_frame; i-- > 0;) {
    if (auto header = header_of(lines[i])) {
      // .NET: "Outer: message ---> Inner: message" on one line.
      const std::size_t inner = lines[i].rfind("---> ");
      if (inner != std::string_view::npos) {
        if (auto innermost = header_of(lines[i].substr(inner))) return innermost;
      }
      return header;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Trace> find_trace(std::string_view error) {
  const std::vector<std::string_view> lines = lines_of(error);
  if (lines.size() < 2) return std::nullopt;
  std::vector<Section> sections(1);
  std::size_t first = lines.size(), last = 0, current = 0;
  bool python = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view next = i + 1 < lines.size() ? lines[i + 1] : std::string_view();
    if (begins_section(lines[i])) {
      sections.push_back({header_of(lines[i]), {}, 0});
      current = sections.size() - 1;
      continue;
    }
    if (trimmed(lines[i]).starts_with("Traceback (most recent call last)")) {
      sections.emplace_back();
      current = sections.size() - 1;
    }
    if (trimmed(lines[i]).starts_with(
            "--- End of inner exception")) {  // the frames of the one around it follow
      current -= current > 0 ? 1 : 0;
      continue;
    }
    const auto frame = frame_of(lines[i], next);
    if (!frame) continue;
    first = std::min(first, i);
    last = i;
    python = python || frame->innermost_last;
    add_frame(sections[current], *frame);
  }
  if (first == lines.size()) return std::nullopt;
  Trace out;
  std::optional<Header> header;
  // The last exception that has frames or a header of its own caused the others.
  for (auto it = sections.rbegin(); it != sections.rend() && !header; ++it) header = it->header;
  for (auto it = sections.rbegin(); it != sections.rend() && out.frame.empty(); ++it) out.frame = it->frame;
  if (python) header = header_after(lines, last);
  if (!header) header = ruby_header(lines[first]);
  if (!header) header = header_before(lines, first);
  if (!header && !python) header = header_after(lines, last);
  if (header) {
    out.type = header->type;
    out.message = header->message;
  } else {
    out.message = trimmed(lines[0]);
  }
  return out;
}

}  // namespace rung::causes
