#include "src/core/policy.h"

#include <utility>

namespace rung {

RuleBook::RuleBook(Ladders ladders, Queues queues, Tags tags, QueueRules defaults, TargetRules targets)
    : ladders_(std::move(ladders)),
      queues_(std::move(queues)),
      tags_(std::move(tags)),
      defaults_(std::move(defaults)),
      targets_(std::move(targets)) {}

const QueueRules& RuleBook::queue(std::string_view name) const {
  const auto it = queues_.find(name);
  return it != queues_.end() ? it->second : defaults_;
}

const TagRules* RuleBook::tag(std::string_view name) const {
  const auto it = tags_.find(name);
  return it != tags_.end() ? &it->second : nullptr;
}

std::shared_ptr<const RuleBook> RuleBook::with_attached(TargetRules::Names queues) const {
  auto copy = std::make_shared<RuleBook>(*this);
  copy->targets_.attached = std::move(queues);
  return copy;
}

std::string own_target(const Target& target, const TargetRules& rules) {
  const Target normal = normalised(target);
  const std::string& name = normal.queue.empty() ? normal.exchange : normal.queue;
  if (!rules.is_own(name)) return {};
  return "'" + name + "' begins with " + rules.own +
         ": those queues and exchanges are Rung's own; name one of yours";
}

const levels::Ladder* RuleBook::ladder(std::string_view name) const {
  const auto it = ladders_.find(name);
  return it != ladders_.end() ? &it->second : nullptr;
}

}  // namespace rung
