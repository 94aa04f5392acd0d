// What is wrong with an instance right now, for /readyz, the metric rung_problem, `rung stats` and `rung
// nodes`. Thread: values, and pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/time.h"

namespace rung {

struct HealthProblem {
  std::string name;    // one of a few constants ("database", "intake" ...): a metric label, and for scripts
  std::string detail;  // for people: what is wrong and how to fix it
  EpochMs since;       // this machine's wall clock
  bool not_ready = false;  // /readyz answers 503 while it lasts
  bool operator==(const HealthProblem&) const = default;
};

// A JSON array of objects, as stored in rung_nodes.problems. Text that does not parse gives none.
std::string problems_to_json(const std::vector<HealthProblem>& problems);
std::vector<HealthProblem> problems_from_json(std::string_view text);

}  // namespace rung
