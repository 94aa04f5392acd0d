// An ASCII word in lower case, and the extension of a file. Thread: pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "src/core/causes/token.h"
#include "src/core/causes/words.h"

namespace rung::causes {

// What ends a path and a URL, besides blanks.
inline constexpr std::string_view kPathEnds = "\"'<>`|;,)]}(";

// Of an ASCII word: its lower case, if it is short enough to have a role.
class Folded {
 public:
  explicit Folded(std::string_view word) : length_(word.size() <= bytes_.size() ? word.size() : 0) {
    std::transform(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(length_), bytes_.begin(),
                   lowered);
  }
  std::string_view view() const { return {bytes_.data(), length_}; }
  Roles roles() const { return roles_of(view()); }

 private:
  std::array<char, 24> bytes_;
  std::size_t length_;
};

inline std::string_view extension_of(std::string_view path) {
  const std::size_t dot = path.find_last_of('.');
  if (dot == std::string_view::npos || path.find_first_of("/\\", dot) != std::string_view::npos) return {};
  return path.substr(dot + 1);
}

}  // namespace rung::causes
