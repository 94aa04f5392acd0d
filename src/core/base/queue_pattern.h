// Patterns for queue names, the keys under `queues:` of the config:
//   *      any run of characters, also an empty one
//   ?      one character
//   [abc]  one of these characters; [a-z] one of a range; [!abc] one that is none of these
// Every other character matches itself. A class of one character is that character, so [*] [?] [[] stand for
// * ? and [ themselves. A [ without its ] matches itself, too.
// A match takes at most the pattern's length times the name's, and both have at most 255 bytes.
// Thread: immutable after construction; pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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
  struct Part {
    enum class Kind { character, any_character, any_run, one_of, none_of };
    Kind kind = Kind::character;
    char32_t character = 0;
    std::vector<std::pair<char32_t, char32_t>> ranges = {};
    bool matches(char32_t c) const;
  };
  void parse();
  bool parse_class(const std::u32string& text, std::size_t& at);
  void find_ends();

  std::string text_;
  std::vector<Part> parts_;
  std::optional<std::string> only_name_;
  std::string head_, tail_;  // before the first wildcard, and after the last: most names fail here
};

}  // namespace rung
