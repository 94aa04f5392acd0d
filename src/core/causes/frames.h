// The lines of stack traces. Thread: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rung::causes {

enum class Language : std::uint8_t { java, dotnet, node, python, ruby, php, go, rust, elixir, erlang, cpp };

struct Frame {
  Language language;
  std::string_view function;  // as it stands in the trace, without arguments
  std::string_view file;      // empty: not said
  bool own = false;           // neither the language's nor a framework's
};

// The frame that `line` is; `next`: the line after it, which has the file in Go and Rust.
std::optional<Frame> frame_of(std::string_view line, std::string_view next);

// Its name in lower case, with dots between its parts; no arguments, lambdas and what compilers number. That
// of an anonymous function is its file's.
std::string name_of(const Frame& frame);

// Without blanks around it, and what draws the tree of an exception group.
std::string_view trimmed(std::string_view line);
// "/app/src/orders.ship.js" -> "orders".
std::string_view stem_of(std::string_view file);
// Whether functions and types of this name, or files of this path, belong to a language or a framework.
bool is_foreign_name(Language language, std::string_view name);
bool is_foreign_file(std::string_view file);
// Of an Elixir application: "ecto_sql".
bool is_foreign_application(std::string_view name);

}  // namespace rung::causes
