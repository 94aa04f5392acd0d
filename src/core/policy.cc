#include "src/core/policy.h"

#include <utility>

namespace rung {

RuleBook::RuleBook(std::map<std::string, levels::Ladder, std::less<>> ladders,
                   std::map<std::string, QueueRules, std::less<>> queues)
    : ladders_(std::move(ladders)), queues_(std::move(queues)) {
  if (const auto it = queues_.find("default"); it != queues_.end()) fallback_ = it->second;
}

const QueueRules& RuleBook::queue(std::string_view name) const {
  const auto it = queues_.find(name);
  return it != queues_.end() ? it->second : fallback_;
}

const levels::Ladder* RuleBook::ladder(std::string_view name) const {
  const auto it = ladders_.find(name);
  return it != ladders_.end() ? &it->second : nullptr;
}

}  // namespace rung
