// Finds the exception and the first own frame of a stack trace. Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rung::causes {

struct Trace {
  std::string_view type;     // "java.lang.IllegalStateException"; empty: the language has none (Go, Rust)
  std::string_view message;  // of that exception
  std::string frame;         // the first that is neither the language's nor a framework's; empty: all are
};

// nullopt: `error` has no stack trace. Of several exceptions, the one that caused the others: Java's last
// "Caused by", .NET's innermost, Node's [cause], and in Python the one that is printed last. Linear in the
// length of `error`.
std::optional<Trace> find_trace(std::string_view error);

}  // namespace rung::causes
