// Stack traces: a table of what their lines look like, by language. Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rung::causes {

struct Trace {
  std::string message;  // of the exception that caused the others, with its type where the language has one
  std::string frame;    // the first that is neither the language's nor a framework's; empty: all are
};

// nullopt: `error` has no stack trace. Of several exceptions, the one that caused the others: Java's last
// "Caused by", .NET's innermost, Node's [cause], and in Python the one that is printed last.
std::optional<Trace> find_trace(std::string_view error);

}  // namespace rung::causes
