// The two halves of a cause's text: what stays of a message without its values (masks.cc), and the stack
// trace, by a table of what its lines look like in each language (frames.cc). docs/causes.md states the rule.
// Thread: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rung::causes {

inline constexpr std::size_t kTextBytes = 1000;
// Replaces a value that the user's masks have matched (CauseRules::mask).
inline constexpr char kMasked = '\x1a';

// `text` without what varies: words in lower case with one blank between them, and a * for values side by
// side, except at the beginning and at the end. At most kTextBytes, of the first 2 KB of `text`.
std::string masked(std::string_view text);

struct Trace {
  std::string message;  // of the exception that caused the others, with its type where the language has one
  std::string frame;    // the first that is neither the language's nor a framework's; empty: all are
};

// nullopt: `error` has no stack trace. Of several exceptions, the one that caused the others: Java's last
// "Caused by", .NET's innermost, Node's [cause], and in Python the one that is printed last.
std::optional<Trace> find_trace(std::string_view error);

}  // namespace rung::causes
