#include "src/core/causes/frames.h"

#include <algorithm>

#include "src/core/causes/token.h"

namespace rung::causes {
namespace {

constexpr std::size_t kLongestFunction = 400;
constexpr std::size_t kLongestErlangName = 120;
constexpr std::size_t kLongestLine = 2000;
constexpr std::string_view kErlangPlace = ",[{file,";

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Without ":12:5" at its end; none if there is none.
std::optional<std::string_view> without_line(std::string_view text) {
  std::size_t end = text.size();
  bool found = false;
  for (int i = 0; i < 2; ++i) {
    std::size_t digits = end;
    while (digits > 0 && is_digit(text[digits - 1])) --digits;
    if (digits == end || digits == 0 || text[digits - 1] != ':') break;
    end = digits - 1;
    found = true;
  }
  if (!found) return std::nullopt;
  return text.substr(0, end);
}

// The position of the bracket that the last one closes. REQUIRES: text ends with ')'.
std::size_t opening_of_last(std::string_view text) {
  int depth = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    if (text[i] == ')') ++depth;
    if (text[i] == '(' && --depth == 0) return i;
  }
  return std::string_view::npos;
}

void drop(std::string_view& text, std::string_view prefix) {
  if (text.starts_with(prefix)) text.remove_prefix(prefix.size());
}

// orders.OrderService.ship(OrderService.java:42), with the module before it: app//com.acme.
std::optional<Frame> java_frame(std::string_view function, std::string_view file) {
  const std::size_t module = function.find_last_of('/');
  if (module != std::string_view::npos && !contains(function, "Lambda")) function.remove_prefix(module + 1);
  const std::size_t colon = file.find(':');
  // A lambda's object; the lambda itself, lambda$ship$0, has a frame of its own.
  const bool own = !is_foreign_name(Language::java, function) && !contains(function, "$$Lambda");
  return Frame{Language::java, function, file.substr(0, colon), own};
}

std::optional<Frame> node_frame(std::string_view function, std::string_view location) {
  const auto file = without_line(location);
  if (!file && location != "native" && location != "<anonymous>" && !location.starts_with("index ") &&
      !location.starts_with("eval at") && !location.starts_with("node:"))
    return std::nullopt;
  drop(function, "async ");
  drop(function, "new ");
  const std::string_view path = file.value_or(location);
  const std::size_t as = function.find(" [as ");
  if (as != std::string_view::npos) function = function.substr(0, as);
  const bool own =
      file && !is_foreign_file(path) && path != "<anonymous>" && !is_foreign_name(Language::node, function);
  return Frame{Language::node, function, path, own};
}

// What follows "at ": Java, .NET, Node, Symfony.
std::optional<Frame> at_frame(std::string_view text) {
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos) {
    drop(text, "async ");
    const auto file = without_line(text);
    if (!file || file->ends_with(".rs") || contains(*file, " ")) return std::nullopt;
    return node_frame("", text);
  }
  if (open == 0 || open > kLongestFunction) return std::nullopt;
  const bool blank = text[open - 1] == ' ';
  const std::string_view function = text.substr(0, open - (blank ? 1 : 0)), rest = text.substr(open);
  if (blank && text.ends_with(')') && !contains(rest, "[0x")) {
    const std::size_t last = opening_of_last(text);
    if (auto node = node_frame(function, text.substr(last + 1, text.size() - last - 2))) return node;
  }
  const std::size_t close = std::min(rest.find(')'), rest.size());
  const std::string_view inside = rest.substr(1, close - 1);
  if (contains(function, " ")) return std::nullopt;
  if (contains(function, "->") || contains(function, "\\"))
    return Frame{Language::php, function, text.substr(std::min(text.find_last_of('(') + 1, text.size())),
                 !is_foreign_name(Language::php, function)};
  const bool java =
      !blank && (without_line(inside) || inside == "Native Method" || inside == "Unknown Source" ||
                 inside.ends_with(".java") || inside.ends_with(".kt") || inside.ends_with(".scala") ||
                 inside == "<generated>" || inside.ends_with("SourceFile"));
  if (java) return java_frame(function, inside);
  if (!is_letter(function[0]) && function[0] != '_' && function[0] != '<') return std::nullopt;
  if (!contains(function, ".") && !contains(rest, " in ")) {
    if (!rest.ends_with(')')) return std::nullopt;
    return Frame{Language::dotnet, function, {}, false};
  }
  return Frame{Language::dotnet, function, {}, !is_foreign_name(Language::dotnet, function)};
}

// File "/app/orders.py", line 12, in ship
std::optional<Frame> python_frame(std::string_view text) {
  const std::size_t end = text.find("\", line ", 6);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view file = text.substr(6, end - 6);
  const std::size_t in = text.find(", in ", end);
  return Frame{Language::python, in == std::string_view::npos ? std::string_view() : text.substr(in + 5),
               file, !is_foreign_file(file)};
}

// app/models/order.rb:12:in `ship', or in 'Order#ship'
std::optional<Frame> ruby_frame(std::string_view text) {
  drop(text, "from ");
  const std::size_t in = text.find(":in ");
  if (in == std::string_view::npos || in + 5 >= text.size()) return std::nullopt;
  const auto file = without_line(text.substr(0, in));
  const char quote = text[in + 4];
  if (!file || (quote != '`' && quote != '\'')) return std::nullopt;
  const std::size_t end = text.find('\'', in + 5);
  if (end == std::string_view::npos) return std::nullopt;
  return Frame{Language::ruby, text.substr(in + 5, end - in - 5), *file, !is_foreign_file(*file)};
}

// #0 /app/src/Order.php(12): App\Order->ship(Object(App\Item)), and gdb's
// #0  0x00007f11 in acme::ship (order=...) at /src/ship.cc:12
std::optional<Frame> numbered_frame(std::string_view text) {
  std::size_t at = 1;
  while (at < text.size() && is_digit(text[at])) ++at;
  if (at == 1 || at >= text.size() || text[at] != ' ') return std::nullopt;
  text = trimmed(text.substr(at));
  if (text.starts_with("{main}")) return Frame{Language::php, "{main}", {}, false};
  const std::size_t colon = text.find("): ");
  const bool internal = text.starts_with("[internal function]: ");
  if (internal || (colon != std::string_view::npos && contains(text.substr(0, colon), ".php("))) {
    const std::string_view file =
        internal ? std::string_view("[internal function]") : text.substr(0, text.find(".php(") + 4);
    const std::string_view call = text.substr(internal ? 21 : colon + 3);
    const std::string_view function = call.substr(
        0, call.find('(', call.starts_with("{closure:") ? std::min(call.find('}'), call.size()) : 0));
    const bool own =
        !is_foreign_name(Language::php, function) && (contains(function, "\\") || !is_foreign_file(file));
    return Frame{Language::php, function, file, own};
  }
  if (text.starts_with("0x")) {
    const std::size_t in = text.find(" in ");
    if (in == std::string_view::npos) return std::nullopt;
    text.remove_prefix(in + 4);
  }
  const std::size_t open = text.find(" (");
  if (open == std::string_view::npos || open == 0) return std::nullopt;
  const bool library = contains(text, ") from ");
  const std::size_t place = text.rfind(") at ");
  const std::string_view file = place == std::string_view::npos ? std::string_view() : text.substr(place + 5);
  const std::string_view function = text.substr(0, open);
  if (!library && file.empty() && !text.ends_with(')')) return std::nullopt;
  return Frame{
      Language::cpp, function, file,
      !library && !is_foreign_name(Language::cpp, function) && !is_foreign_file(file) && function != "??"};
}

// Rust's "3: app::ship" with "at ./src/ship.rs:12" below it; boost's "3# app::ship(int) at /src/ship.cc:12".
std::optional<Frame> counted_frame(std::string_view text, std::string_view next) {
  std::size_t at = 0;
  while (at < text.size() && is_digit(text[at])) ++at;
  if (at == 0 || at > 3 || at + 2 >= text.size() || (text[at] != ':' && text[at] != '#') ||
      text[at + 1] != ' ')
    return std::nullopt;
  const bool boost = text[at] == '#';
  text = trimmed(text.substr(at + 1));
  if (text.starts_with("0x")) {
    const std::size_t dash = text.find(" - ");
    if (dash == std::string_view::npos) return Frame{Language::cpp, "??", {}, false};
    text.remove_prefix(dash + 3);
  }
  if (boost) {
    const std::size_t place = std::min(text.find(" at "), text.find(" in "));
    const std::string_view file =
        place == std::string_view::npos ? std::string_view() : text.substr(place + 4);
    const std::string_view function = text.substr(0, std::min(text.find('('), place));
    return Frame{Language::cpp, function, file,
                 !is_foreign_name(Language::cpp, function) && !is_foreign_file(file) && !function.empty()};
  }
  std::string_view place = trimmed(next);
  place = place.starts_with("at ") ? place.substr(3) : std::string_view();
  const bool words =
      text.find(' ') != std::string_view::npos && !text.starts_with('<') && !contains(text, "::");
  if (words || (place.empty() && !contains(text, "::") &&
                text.find_first_of("._") == std::string_view::npos && text != "main"))
    return std::nullopt;
  return Frame{Language::rust, text, place,
               contains(text, "::") && !is_foreign_name(Language::rust, text) && !is_foreign_file(place)};
}

// (app 2.7.1) lib/orders.ex:12: App.Orders.ship/2
std::optional<Frame> elixir_frame(std::string_view text) {
  std::string_view application;
  if (text.starts_with('(')) {
    const std::size_t close = text.find(") ");
    if (close == std::string_view::npos) return std::nullopt;
    application = text.substr(1, std::min(text.find(' ', 1), close) - 1);
    text.remove_prefix(close + 2);
  }
  const std::size_t colon = text.find(": ");
  if (colon == std::string_view::npos) {
    if (application.empty() || !contains(text, "/")) return std::nullopt;
    return Frame{Language::elixir, text, {}, !is_foreign_application(application)};
  }
  const auto file = without_line(text.substr(0, colon));
  if (!file || !(file->ends_with(".ex") || file->ends_with(".exs") || file->ends_with(".erl")))
    return std::nullopt;
  const bool own = !is_foreign_application(application) && !is_foreign_file(*file) &&
                   (!application.empty() || !file->ends_with(".erl"));
  return Frame{Language::elixir, text.substr(colon + 2), *file, own};
}

// Of a list of {orders,ship,2,[{file,"src/orders.erl"},{line,12}]} the first own one, otherwise the first.
std::optional<Frame> erlang_frame(std::string_view text) {
  std::optional<Frame> first;
  for (std::size_t at = text.find(kErlangPlace); at != std::string_view::npos;
       at = text.find(kErlangPlace, at + 1)) {
    const std::string_view before =
        text.substr(at > kLongestErlangName ? at - kLongestErlangName : 0, std::min(at, kLongestErlangName));
    const std::size_t open = before.find_last_of('{');
    if (open == std::string_view::npos) continue;
    const std::string_view call = before.substr(open + 1);  // orders,ship,2
    const std::size_t arity = call.find_last_of(','), module = call.find(',');
    if (arity == std::string_view::npos || arity == module || !all_digits(call.substr(arity + 1))) continue;
    const std::string_view name = call.substr(0, arity);
    const bool own = !is_foreign_name(Language::erlang, std::string(call.substr(0, module)) + ":");
    if (own) return Frame{Language::erlang, name, {}, true};
    if (!first) first = Frame{Language::erlang, name, {}, false};
  }
  return first;
}

// acme.com/orders.(*Service).Ship(0xc000010000) with "\t/app/orders.go:12 +0x1d" below it
std::optional<Frame> go_frame(std::string_view text, std::string_view next) {
  const std::string_view place = trimmed(next);
  const std::size_t go = place.find(".go:");
  if (go == std::string_view::npos || contains(place.substr(0, go), " ")) return std::nullopt;
  drop(text, "created by ");
  text = text.substr(0, text.find(" in goroutine"));
  std::size_t open = text.find('(');
  while (open != std::string_view::npos && open > 0 && text[open - 1] == '.') open = text.find('(', open + 1);
  const std::string_view function = text.substr(0, open), file = place.substr(0, go + 3);
  if (function.empty() || contains(function, " ") || !(contains(function, ".") || function == "panic"))
    return std::nullopt;
  return Frame{Language::go, function, file,
               !is_foreign_name(Language::go, function) && !is_foreign_file(file)};
}

}  // namespace

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kAround = " \t\r|";
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(kAround), line.size()));
    if (!line.starts_with("\\t") && !line.starts_with("\\r")) break;
    line.remove_prefix(2);
  }
  return line.substr(0, line.find_last_not_of(kAround) + 1);
}

std::string_view stem_of(std::string_view file) {
  file = file.substr(file.find_last_of("/\\") + 1);
  return file.substr(0, file.find('.', 1));
}

std::optional<Frame> frame_of(std::string_view line, std::string_view next) {
  const std::string_view text = trimmed(line);
  if (text.size() < 4 || (text.size() > kLongestLine && !contains(text, kErlangPlace))) return std::nullopt;
  if (text.starts_with("at ")) return at_frame(trimmed(text.substr(3)));
  if (text.starts_with("bei ")) return at_frame(text.substr(4));
  if (text.starts_with("File \"")) return python_frame(text);
  if (text[0] == '#') return numbered_frame(text);
  if (is_digit(text[0])) {
    if (auto counted = counted_frame(text, next)) return counted;
  }
  if (text[0] == '(' || contains(text, ".ex")) {
    if (auto elixir = elixir_frame(text)) return elixir;
  }
  if (contains(text, kErlangPlace)) return erlang_frame(text);
  if (next.starts_with('\t') || next.starts_with(' ') || next.starts_with("\\t")) {
    if (auto go = go_frame(text, next)) return go;
  }
  return ruby_frame(text);
}

}  // namespace rung::causes
