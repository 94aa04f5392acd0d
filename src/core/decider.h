// decide() as a store calls it. Thread: a pure function.
#pragma once

#include <functional>
#include <utility>

#include "src/core/machine.h"
#include "src/core/policy.h"

namespace rung {

// decide() with the rule book bound to it; called inside the transaction, once per event.
using Decider = std::function<Decision(const Task&, const Happening&, const Circumstances&)>;

inline Decider decider(RuleBookPtr rules) {
  return [rules = std::move(rules)](const Task& task, const Happening& what, const Circumstances& at) {
    return decide(task, what, *rules, at);
  };
}

}  // namespace rung
