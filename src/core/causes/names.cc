// The name of a frame's function, without what compilers and runtimes add.
#include <algorithm>

#include "src/core/causes/frames.h"
#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

constexpr std::size_t kLongestName = 200;

bool is_any_of(std::string_view part, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, part) != words.end();
}

// A part that says nothing about the code: numbers, lambdas, hashes, generated classes.
bool is_noise(Language language, std::string_view part) {
  if (part.empty() || all_digits(part)) return true;
  switch (language) {
    case Language::java:
      return is_any_of(part, {"lambda", "Lambda", "anonfun", "default", "suspendImpl", "invokeSuspend",
                              "CGLIB", "adapted"}) ||
             part.starts_with("EnhancerBy") || part.starts_with("FastClassBy") || part.starts_with("0x") ||
             part.starts_with("SpringCGLIB") || (is_hex(part, 6) && has_digit(part));
    case Language::dotnet:
      return part == "MoveNext";
    case Language::go:
      return (part.starts_with("func") && all_digits(part.substr(4))) || part.starts_with("gowrap") ||
             part.starts_with("deferwrap") || part == "fm";
    case Language::rust:
      return part.size() == 17 && part[0] == 'h' && is_hex(part.substr(1), 16);
    case Language::erlang:
    case Language::elixir:
      return part == "fun" || part == "fn";
    case Language::node:
      return is_any_of(part, {"Object", "Function", "exports", "module", "default", "eval", "anonymous"});
    default:
      return false;
  }
}

// Writes the parts of a function's name.
class Name {
 public:
  explicit Name(Language language) : language_(language) {}

  void add(std::string_view text) {
    for (std::size_t at = 0; at < text.size() && out_.size() < kLongestName;) {
      const char c = text[at];
      if (c == '<') {
        at = angle(text, at);
      } else if (c == '[' || c == '{') {
        at = std::min(text.find(c == '[' ? ']' : '}', at), text.size() - 1) + 1;
      } else if (is_letter(c) || is_digit(c) || c == '_' || is_high(c)) {
        std::size_t to = at;
        while (to < text.size() &&
               (is_letter(text[to]) || is_digit(text[to]) || text[to] == '_' || is_high(text[to])))
          ++to;
        part(text.substr(at, to - at));
        at = to;
        if (at < text.size() && text[at] == '`') {  // List`1
          while (++at < text.size() && is_digit(text[at])) continue;
        }
      } else {
        ++at;
      }
    }
  }
  std::string take() { return std::move(out_); }

 private:
  // .NET's <Ship>d__12 is Ship; Rust's <app::Order as app::Ship> is app::Order; all others are type
  // parameters.
  std::size_t angle(std::string_view text, std::size_t at) {
    std::size_t open = at;
    while (open < text.size() && text[open] == '<') ++open;
    int depth = static_cast<int>(open - at);
    std::size_t end = open;
    while (end < text.size() && depth > 0) {
      depth += text[end] == '<' ? 1 : text[end] == '>' ? -1 : 0;
      ++end;
    }
    const std::string_view inside = text.substr(open, end - open - (depth == 0 ? 1 : 0));
    const bool begins = at == 0 || text[at - 1] == '.' || text[at - 1] == '+';
    if (language_ == Language::dotnet && begins) {
      const std::size_t close = std::min(inside.find('>'), inside.size());
      part(inside.substr(0, close));
      return std::min(text.find('.', end), text.size());  // d__12, c__DisplayClass3_0, b__0
    }
    if (language_ == Language::rust && begins && inside.find(" as ") != std::string_view::npos)
      add(inside.substr(0, inside.find(" as ")));
    return end;
  }

  void part(std::string_view text) {
    if (is_noise(language_, text)) return;
    if (!out_.empty()) out_ += '.';
    const bool digits = has_digit(text) && !digits_belong(text);
    for (const char c : text) {
      if (!digits || !is_digit(c)) out_ += lowered(c);
    }
  }

  const Language language_;
  std::string out_;
};

// What names an Erlang or Elixir function: ship of '-ship/2-fun-0-', and of anonymous fn/1 in
// App.Orders.ship/2.
std::string_view beam_function(std::string_view text) {
  const std::size_t in = text.rfind(" in ");
  if (in != std::string_view::npos) text.remove_prefix(in + 4);
  const std::size_t inner = text.find("-fun-");
  if (inner != std::string_view::npos) text = text.substr(0, inner);
  const std::size_t slash = text.find_first_of("/(");
  return text.substr(0, slash);
}

std::string_view ruby_function(std::string_view text) {
  const std::size_t in = text.rfind(" in ");
  if (in != std::string_view::npos) text.remove_prefix(in + 4);
  text.remove_prefix(text.find_last_of("#.:") + 1);
  return text.starts_with('<') ? std::string_view() : text;
}

}  // namespace

std::string name_of(const Frame& frame) {
  Name name(frame.language);
  std::string_view function = frame.function;
  switch (frame.language) {
    case Language::python:
      name.add(stem_of(frame.file));
      name.add(function.starts_with('<') ? std::string_view() : function);
      break;
    case Language::ruby:
      name.add(stem_of(frame.file));
      name.add(ruby_function(function));
      break;
    case Language::php:
      if (function.starts_with("{closure:")) function.remove_prefix(9);
      name.add(function.substr(0, function.find("()")));
      break;
    case Language::node:
      if (function.find('<') == std::string_view::npos) name.add(function);
      break;
    case Language::elixir:
    case Language::erlang:
      name.add(beam_function(function));
      break;
    default:
      name.add(function.substr(0, frame.language == Language::cpp ? function.find('(') : function.size()));
  }
  std::string out = name.take();
  if (!out.empty()) return out;
  Name file(frame.language);
  file.add(stem_of(frame.file));
  return file.take();
}

}  // namespace rung::causes
