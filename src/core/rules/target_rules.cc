#include "src/core/rules/target_rules.h"

#include <algorithm>

#include "src/core/base/utf8.h"

namespace rung {
const QueueGroups::Group* QueueGroups::find(std::string_view name) const {
  const auto it = std::ranges::find(all, name, &Group::name);
  return it != all.end() ? &*it : nullptr;
}

const QueueGroups::Group* QueueGroups::of_queue(std::string_view queue) const {
  // A plain name contains no *: an equal entry is a plain name, unless the queue's name itself has a *.
  for (const Group& group : all) {
    if (std::ranges::find(group.queues, queue) != group.queues.end()) return &group;
  }
  for (const Group& group : all) {
    if (std::ranges::any_of(group.queues, [&](const auto& p) { return matches_pattern(p, queue); }))
      return &group;
  }
  return nullptr;
}

const QueueGroups::Group* QueueGroups::elsewhere(std::string_view queue) const {
  const Group* group = of_queue(queue);
  return group != nullptr && group->name != own ? group : nullptr;
}

std::string QueueGroups::own_prefix(std::string_view name) const {
  for (const Group& group : all) {
    if (name.starts_with(group.prefix + ".")) return group.prefix + ".";
  }
  return {};
}

std::string QueueGroups::names() const {
  std::string out;
  for (const Group& group : all) out += (out.empty() ? "" : ", ") + group.name;
  return out;
}

namespace {

constexpr std::string_view kBrokersOwn = "amq.";

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = std::string_view::npos, resume = 0;  // the last *, and where its run ends so far
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return std::ranges::all_of(pattern.substr(p), [](char c) { return c == '*'; });
}

bool TargetRules::allows(std::string_view name) const {
  const auto matches = [&](const std::string& pattern) { return matches_pattern(pattern, name); };
  if (is_own(name) || std::ranges::any_of(deny, matches)) return false;
  if (configured.contains(name) || attached.contains(name)) return true;
  const auto by_config = [&](const QueuePattern& pattern) {
    return (!name.starts_with(kBrokersOwn) || pattern.head().starts_with(kBrokersOwn)) &&
           pattern.matches(name);
  };
  if (std::ranges::any_of(configured_patterns, by_config)) return true;
  if (name.starts_with(kBrokersOwn)) {
    return allow && std::ranges::any_of(*allow, [&](const std::string& pattern) {
             return pattern.starts_with(kBrokersOwn) && matches(pattern);
           });
  }
  return !allow || std::ranges::any_of(*allow, matches);
}

std::string not_allowed(std::string_view named_by, std::string_view name) {
  return std::string(named_by) + " names '" + clean_utf8(name, 255) +
         "', which broker.targets does not allow";
}

}  // namespace rung
