// Makes an error text what all texts of its cause have in common. Thread: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rung::causes {

inline constexpr std::size_t kTextBytes = 1000;

struct Text {
  // Words in lower case, with one blank between them; * for what varies from failure to failure. No
  // punctuation. UTF-8, about kTextBytes at most.
  std::string words;
  // Those among them that say what happened: "404", "econnrefused".
  std::string codes;
};

// docs/causes.md states the rule. `type`: of the error; may be empty. Any bytes are fine; linear in the
// length of `text`.
Text normalise(std::string_view text, std::string_view type);

}  // namespace rung::causes
