// The rules of a config as JSON (no addresses and no secrets), and what they would decide for a failure:
// `rung check --explain`, POST /v1/simulate. Decided by the state machine, as in the sidecar. Thread: pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "src/api/base/json.h"
#include "src/core/causes/fingerprint.h"
#include "src/core/rules/failure_rules.h"
#include "src/core/rules/policy.h"
#include "src/core/task/task.h"

namespace rung::api {

Json config_json(const RuleBook& rules);
// What applies to one queue: its entry (`entry`: its name, or the pattern that it matches; null: the
// defaults), the delays of its ladder and its rules for failures.
Json queue_config_json(const RuleBook& rules, const std::string& queue);

// A failed delivery. Empty = it has none.
struct SupposedFailure {
  std::string queue = {}, error = {}, type = {}, tag = {};
  std::string reason = {};  // one of failure_reasons()
  RuleHeaders headers = {};
  int attempt = 0;  // retries so far, the failed one included; 0 = the first delivery failed
  Ms age{0};        // since the first failure
};

struct Explanation {
  struct Tried {
    const FailureRule* rule = nullptr;
    std::string why_not;  // "" = it matches
  };
  std::vector<Tried> tried;  // in their order, up to the one that matches
  Task before, after;        // the task when it failed, and what became of it
  Ms delay{0};               // of a scheduled one, without the ladder's jitter
  std::string cause;         // the text of its cause (docs/causes.md)

  const FailureRule* match() const;  // nullptr: the ladder decides
};

// `causes`: the config's, nullptr: it has none. REQUIRES: `rules` outlives the result.
Explanation explain_failure(const SupposedFailure& failure, const RuleBook& rules,
                            const CauseRules* causes = nullptr);
// "retry in 5s, level 1 of 9 of ladder default (rule payments[2])"
std::string result_text(const Explanation& explanation);
Json to_json(const Explanation& explanation, const RuleBook& rules);

}  // namespace rung::api
