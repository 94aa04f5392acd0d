#include "src/core/rules/people.h"

#include <algorithm>

namespace rung {

std::string_view to_word(Role role) { return kRoleWords[static_cast<std::size_t>(role)]; }

std::optional<Role> role_from(std::string_view word) {
  const auto* found = std::ranges::find(kRoleWords, word);
  if (found == kRoleWords.end()) return std::nullopt;
  return static_cast<Role>(found - kRoleWords.begin());
}

bool QueueScope::holds(std::string_view queue) const {
  return std::ranges::any_of(patterns_, [&](const QueuePattern& one) { return one.matches(queue); });
}

std::vector<std::string> QueueScope::texts() const {
  std::vector<std::string> all;
  for (const QueuePattern& one : patterns_) all.push_back(one.text());
  return all;
}

}  // namespace rung
