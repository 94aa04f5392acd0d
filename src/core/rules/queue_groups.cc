#include "src/core/rules/queue_groups.h"

#include <algorithm>

#include "src/core/rules/target_rules.h"

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

}  // namespace rung
