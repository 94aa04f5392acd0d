#include "src/core/causes/trace.h"

#include <algorithm>
#include <vector>

#include "src/core/causes/frames.h"
#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

constexpr std::size_t kMostLines = 1000;
constexpr std::size_t kMostAbove = 60;  // lines of a message above the first frame
constexpr std::size_t kLongestType = 200;

using Lines = std::vector<std::string_view>;

// Also where newlines have been escaped, as in JSON.
Lines lines_of(std::string_view text) {
  const bool escaped = text.find('\n') == std::string_view::npos;
  const std::string_view separator = escaped ? "\\n" : "\n";
  Lines out;
  for (std::size_t from = 0; from < text.size() && out.size() < kMostLines;) {
    const std::size_t to = std::min(text.find(separator, from), text.size());
    out.push_back(text.substr(from, to - from));
    from = to + separator.size();
  }
  return out;
}

struct Header {
  std::string_view type, message;
};

constexpr std::string_view kBefore[] = {"Caused by: ",
                                        "Suppressed: ",
                                        "---> ",
                                        "(Inner Exception #0) ",
                                        "Unhandled exception. ",
                                        "Unhandled Exception: ",
                                        "Uncaught ",
                                        "uncaught ",
                                        "PHP Fatal error:  ",
                                        "PHP Fatal error: ",
                                        "Fatal error: ",
                                        "[cause]: ",
                                        "** ",
                                        "cause: ",
                                        "Exception in thread ",
                                        "terminate called after throwing an instance of ",
                                        "[object] (",
                                        "[previous exception] ",
                                        "Next ",
                                        "throw ",
                                        "Error: Uncaught ",
                                        "Uncaught Exception: ",
                                        "Wrapped by: ",
                                        "In "};

bool is_type(std::string_view text) {
  return text.size() >= 3 && text.size() <= kLongestType && std::ranges::all_of(text, [](char c) {
           return is_letter(c) || is_digit(c) ||
                  std::string_view("._$\\:`+@-").find(c) != std::string_view::npos;
         });
}

bool names_failure(std::string_view type) {
  for (const std::string_view word :
       {"Error", "Exception", "Failure", "Throwable", "Fault", "Interrupt", "Timeout", "Panic"})
    if (type.find(word) != std::string_view::npos) return true;
  return false;
}

// "java.lang.IllegalStateException: no stock". strict: the type says that it is an error.
std::optional<Header> header_of(std::string_view line, bool strict) {
  line = trimmed(line);
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view before : kBefore) {
      if (!line.starts_with(before)) continue;
      line = trimmed(line.substr(before.size()));
      if (before.starts_with("Exception in") && line.starts_with('"'))
        line = trimmed(line.substr(std::min(line.find('"', 1), line.size() - 1) + 1));
      again = true;
    }
  }
  if (line.starts_with('\'')) {  // C++: an instance of 'std::runtime_error'
    const std::size_t end = line.find('\'', 1);
    if (end == std::string_view::npos || !is_type(line.substr(1, end - 1))) return std::nullopt;
    return Header{line.substr(1, end - 1), trimmed(line.substr(end + 1))};
  }
  if (line.starts_with('(')) {  // Elixir: (KeyError) key :x not found
    const std::size_t end = line.find(')');
    if (end == std::string_view::npos || !is_type(line.substr(1, end - 1))) return std::nullopt;
    return Header{line.substr(1, end - 1), trimmed(line.substr(end + 1))};
  }
  std::size_t end = 0;
  while (end < line.size() && end <= kLongestType && line[end] != ' ' && line[end] != '(' &&
         (line[end] != ':' || line.substr(end).starts_with("::")))
    end += line[end] == ':' ? 2 : 1;
  end = std::min(end, line.size());
  const std::string_view type = line.substr(0, end), rest = trimmed(line.substr(end));
  const bool message = rest.empty() || rest[0] == ':' || rest[0] == '(' || rest[0] == '[';
  if (!message || !is_type(type) || !std::ranges::any_of(type, is_letter)) return std::nullopt;
  const bool qualified = type.find('.') != std::string_view::npos ||
                         type.find('\\') != std::string_view::npos ||
                         type.find("::") != std::string_view::npos;
  const bool upper = std::ranges::any_of(type, is_upper);
  if (!names_failure(type) && (strict || !(qualified || upper || rest.empty()))) return std::nullopt;
  return Header{type, rest.substr(std::min(rest.find_first_not_of(": "), rest.size()))};
}

std::size_t indent_of(std::string_view line) {
  std::size_t indent = 0;
  for (; indent < line.size() && (line[indent] == ' ' || line[indent] == '\t'); ++indent) continue;
  return indent;
}

// Ruby: "x.rb:12:in `m': message (Type)".
std::optional<Header> ruby_header(std::string_view line) {
  const std::size_t in = line.find(":in ");
  const std::size_t quote = in == std::string_view::npos ? in : line.find("': ", in);
  if (quote == std::string_view::npos) return std::nullopt;
  const std::string_view rest = trimmed(line.substr(quote + 3));
  const std::size_t open = rest.find_last_of('(');
  if (open == std::string_view::npos || !rest.ends_with(')') ||
      !is_type(rest.substr(open + 1, rest.size() - open - 2)))
    return std::nullopt;
  return Header{rest.substr(open + 1, rest.size() - open - 2), rest.substr(0, open)};
}

// One exception and its frames.
struct Section {
  std::optional<Header> header;
  std::optional<Frame> own;
  std::size_t first = 0, last = 0;  // its frames' lines
  bool frames = false, python = false;
};

class Reader {
 public:
  explicit Reader(Lines lines) : lines_(std::move(lines)), sections_(1) {}

  std::optional<Trace> read() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      if (!line(i)) break;
    }
    if (std::ranges::none_of(sections_, [](const Section& section) { return section.frames; }))
      return without_frames();
    Trace out;
    const Section* cause = nullptr;
    // The last exception caused the others.
    for (auto it = sections_.rbegin(); it != sections_.rend(); ++it) {
      if (cause == nullptr && !it->header && it->frames) it->header = header_around(*it);
      if (cause == nullptr && (it->header || it->frames)) cause = &*it;
      if (cause != nullptr && out.frame.empty() && it->own) out.frame = name_of(*it->own);
    }
    if (cause->header) {
      out.type = cause->header->type;
      out.message = message_of(*cause);
    } else {
      out.message = first_line();
    }
    if (out.frame.empty()) out.frame = place();
    return out;
  }

 private:
  bool any_own() const {
    return std::ranges::any_of(sections_, [](const Section& section) { return section.own.has_value(); });
  }

  // Java: what was thrown while resources were closed, with its frames and causes.
  bool is_suppressed(std::string_view raw, std::string_view text) {
    const std::size_t indent = indent_of(raw);
    if (suppressed_) {
      if (indent > *suppressed_ || (indent == *suppressed_ && text.starts_with("Caused by: "))) return true;
      suppressed_.reset();
    }
    if (!text.starts_with("Suppressed: ")) return false;
    suppressed_ = indent;
    return true;
  }

  // False: what follows does not count.
  bool line(std::size_t i) {
    const std::string_view raw = lines_[i], text = trimmed(raw);
    if (text.empty() || is_suppressed(raw, text)) return true;
    if ((text.starts_with("goroutine ") || text.starts_with("Next ")) && any_own()) return false;
    const bool python = text.starts_with("Traceback (most recent call last)") ||
                        text.starts_with("+ Exception Group Traceback") ||
                        text.starts_with("Exception Group Traceback");
    if (python || begins(text)) {
      sections_.emplace_back();
      current_ = sections_.size() - 1;
      if (!python) sections_.back().header = header_of(text, false);
      return true;
    }
    if (text.starts_with("--- End of inner exception")) {
      current_ -= current_ > 0 ? 1 : 0;  // the frames of the one around it follow
      return true;
    }
    const auto frame = frame_of(raw, i + 1 < lines_.size() ? lines_[i + 1] : std::string_view());
    if (!frame) {
      inner_headers(text);
      return true;
    }
    if (frame->language == Language::ruby) {
      if (auto header = ruby_header(text)) {
        if (sections_[current_].frames) {
          sections_.emplace_back();
          current_ = sections_.size() - 1;
        }
        sections_[current_].header = header;
      }
    }
    add(*frame, i);
    return true;
  }

  static bool begins(std::string_view text) {
    return text.starts_with("Caused by: ") || text.starts_with("[cause]: ") || text.starts_with("---> ") ||
           text.starts_with("[previous exception]");
  }

  // .NET: "Outer: message ---> Inner: message" on one line.
  void inner_headers(std::string_view text) {
    if (sections_[current_].frames) return;
    for (std::size_t inner = text.find(" ---> "); inner != std::string_view::npos;
         inner = text.find(" ---> ", inner + 6)) {
      auto header = header_of(text.substr(inner + 1), false);
      if (!header) continue;
      header->message = header->message.substr(0, header->message.find(" ---> "));
      sections_.emplace_back();
      current_ = sections_.size() - 1;
      sections_.back().header = header;
    }
  }

  void add(const Frame& frame, std::size_t i) {
    Section& section = sections_[current_];
    if (!section.frames) section.first = i;
    section.frames = true;
    section.last = i;
    section.python = frame.language == Language::python;
    if (frame.own && (!section.own || section.python)) section.own = frame;
  }

  std::optional<Header> header_after(std::size_t last_frame) const {
    for (std::size_t i = last_frame + 1; i < std::min(lines_.size(), last_frame + 8); ++i) {
      if (lines_[i].empty() || lines_[i][0] == ' ' || lines_[i][0] == '\t') {
        if (trimmed(lines_[i]).empty() || lines_[i].find('|') == std::string_view::npos) continue;
      }
      if (auto header = header_of(lines_[i], false)) return header;
      const std::string_view type = trimmed(lines_[i]);
      if (is_type(type)) return Header{type, {}};
      const std::size_t colon = type.find(": ");
      if (colon != std::string_view::npos && is_type(type.substr(0, colon)))
        return Header{type.substr(0, colon), type.substr(colon + 2)};
    }
    return std::nullopt;
  }

  // Python's stands after the frames; the others' before, where the nearest line that says error is it.
  std::optional<Header> header_around(const Section& section) {
    if (section.python) return header_after(section.last);
    const std::size_t top = section.first > kMostAbove ? section.first - kMostAbove : 0;
    for (const bool strict : {true, false}) {
      for (std::size_t i = section.first; i-- > top;) {
        if (lines_[i].starts_with("panic: ")) return std::nullopt;
        if (auto header = header_of(lines_[i], strict)) {
          return header;
        }
      }
    }
    for (std::size_t i = section.first; i-- > top;) {
      if (auto header = header_within(lines_[i])) return header;
    }
    return std::nullopt;
  }

  // 2024-01-02 ERROR orders - java.lang.IllegalStateException: no stock
  static std::optional<Header> header_within(std::string_view line) {
    for (const std::string_view word : {"Exception", "Error"}) {
      const std::size_t end = line.find(word);
      if (end == std::string_view::npos) continue;
      std::size_t from = end, to = end + word.size();
      while (from > 0 && (is_letter(line[from - 1]) || is_digit(line[from - 1]) ||
                          std::string_view("._\\$:").find(line[from - 1]) != std::string_view::npos))
        --from;
      if (from == end || (to < line.size() && line[to] != ':' && line[to] != ' ')) continue;
      return Header{line.substr(from, to - from), line.substr(std::min(to + 1, line.size()))};
    }
    return std::nullopt;
  }

  // To the first frame, if it has more lines.
  std::string_view message_of(const Section& section) const {
    const std::string_view message = section.header->message;
    if (section.python || message.empty() || !section.frames) return message;
    const char* end = lines_[section.first].data();
    if (end <= message.data() + message.size()) return message;
    return {message.data(), static_cast<std::size_t>(end - message.data())};
  }

  std::string_view first_line() const {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const std::string_view text = trimmed(lines_[i]);
      if (text.empty() || text.starts_with("goroutine ") || text.starts_with("stack backtrace")) continue;
      // Rust: the message stands in the line below.
      if (text.starts_with("thread '") && text.ends_with(':') && i + 1 < lines_.size()) return lines_[i + 1];
      const std::size_t old = text.find(" panicked at '");
      if (old != std::string_view::npos)
        return text.substr(old + 14, std::max(text.rfind("', "), old + 14) - old - 14);
      // Erlang: the reason stands before the frames.
      const std::size_t place = text.find(",[{file,");
      return place == std::string_view::npos ? text : text.substr(0, text.rfind("[{", place));
    }
    return {};
  }

  // PHP: message in /app/src/Order.php:12, or on line 12.
  std::string php_place() const {
    for (const std::string_view line : lines_) {
      const std::size_t php = line.find(".php");
      if (php == std::string_view::npos) continue;
      const std::string_view after = line.substr(php + 4);
      if (!after.starts_with(':') && !after.starts_with(" on line ") && !after.starts_with('(')) continue;
      const std::size_t in = line.substr(0, php).find_last_of(" (");
      if (in == std::string_view::npos ||
          !(line.substr(0, in).ends_with(" in") || line.substr(0, in).ends_with(" at")))
        continue;
      const std::string_view file = line.substr(in + 1, php - in + 3);
      if (!is_foreign_file(file)) return name_of(Frame{Language::php, {}, file, true});
    }
    return {};
  }

  // Rust: thread 'main' panicked at src/orders.rs:42:5: or, before 1.73, at 'message', src/orders.rs:42:5
  std::string rust_place() const {
    constexpr std::string_view kAt = "' panicked at ";
    for (const std::string_view line : lines_) {
      const std::size_t at = line.find(kAt);
      if (at == std::string_view::npos) continue;
      std::string_view file = line.substr(at + kAt.size());
      if (file.starts_with('\'')) file.remove_prefix(std::min(file.rfind("', ") + 3, file.size()));
      file = file.substr(0, file.find(':'));
      if (!file.ends_with(".rs") || is_foreign_file(file)) return {};
      return name_of(Frame{Language::rust, {}, file, true});
    }
    return {};
  }

  std::string place() const {
    std::string php = php_place();
    return php.empty() ? rust_place() : php;
  }

  std::optional<Trace> without_frames() {
    const std::string_view first = lines_.empty() ? std::string_view() : trimmed(lines_[0]);
    Trace out;
    // Rust without a backtrace
    if (first.starts_with("thread '") && first.find("' panicked at ") != std::string_view::npos) {
      out.message = first_line();
      out.frame = rust_place();
      return out;
    }
    out.frame = php_place();
    if (out.frame.empty()) return std::nullopt;
    const auto header = header_of(first, true);
    if (header) {
      out.type = header->type;
      out.message = header->message;
    } else {
      out.message = first;
    }
    return out;
  }

  const Lines lines_;
  std::vector<Section> sections_;
  std::size_t current_ = 0;
  std::optional<std::size_t> suppressed_;
};

}  // namespace

std::optional<Trace> find_trace(std::string_view error) {
  Lines lines = lines_of(error);
  if (lines.size() < 2 && error.find(".php") == std::string_view::npos &&
      error.find(",[{file,") == std::string_view::npos && !error.starts_with("thread '"))
    return std::nullopt;
  return Reader(std::move(lines)).read();
}

}  // namespace rung::causes
