#include "src/core/policy.h"

#include <utility>

namespace rung {

RuleBook::RuleBook(Ladders ladders, Queues queues, Tags tags)
    : ladders_(std::move(ladders)), queues_(std::move(queues)), tags_(std::move(tags)) {
  if (const auto it = queues_.find("default"); it != queues_.end()) fallback_ = it->second;
}

const QueueRules& RuleBook::queue(std::string_view name) const {
  const auto it = queues_.find(name);
  return it != queues_.end() ? it->second : fallback_;
}

const TagRules* RuleBook::tag(std::string_view name) const {
  const auto it = tags_.find(name);
  return it != tags_.end() ? &it->second : nullptr;
}

const levels::Ladder* RuleBook::ladder(std::string_view name) const {
  const auto it = ladders_.find(name);
  return it != ladders_.end() ? &it->second : nullptr;
}

}  // namespace rung
