// Patterns for queue names, the keys under `queues:` of the config:
//   *      any run of characters, also an empty one
//   ?      one character
//   [abc]  one of these characters; [a-z] one of a range; [!abc] one that is none of these
// Every other character matches itself. A class of one character is that character, so [*] [?] [[] stand for
// * ? and [ themselves. A [ without its ] matches itself, too, and so does a pattern with a range like [z-a].
// A byte that is not UTF-8 counts as a character. Thread: immutable after construction; pure. A match takes
// time linear in the name's length (RE2).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace re2 {
class RE2;
}

namespace rung {

class QueuePattern {
 public:
  explicit QueuePattern(std::string text);

  const std::string& text() const { return text_; }
  // If it has no wildcard: the only name that it matches.
  const std::optional<std::string>& only_name() const { return only_name_; }
  bool matches(std::string_view name) const;
  // What every matching name begins with.
  const std::string& head() const { return head_; }

 private:
  std::string text_;
  std::string head_;  // before the first wildcard: most names fail here
  std::optional<std::string> only_name_;
  std::shared_ptr<const re2::RE2> regex_;  // used unless there is an only_name_
};

// The simpler patterns of all other lists of the config: * in `pattern` matches any run of characters, also
// an empty one; every other character matches itself.
bool matches_pattern(std::string_view pattern, std::string_view text);

}  // namespace rung
