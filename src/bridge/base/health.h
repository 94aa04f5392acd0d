// The current problems of this instance, by name. The component that detects a problem sets it, and clears it
// when it is over; /readyz, the metric rung_problem, `rung stats` and `rung nodes` show them.
// Thread: the loop's.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/base/clock.h"
#include "src/core/base/health.h"

namespace rung::bridge {

class Health {
 public:
  enum class Effect { warning, not_ready };

  // `changed` runs after each change.
  Health(const Clock& clock, std::function<void()> changed) : clock_(clock), changed_(std::move(changed)) {}

  // Begins a problem, or updates its detail. `name` is a constant: it is a metric's label.
  void set(std::string_view name, std::string detail, Effect effect = Effect::warning);
  void clear(std::string_view name);
  // Sets a warning, or clears it if `detail` is empty. Returns whether it is new.
  bool show(std::string_view name, const std::string& detail);
  bool has(std::string_view name) const;
  const std::vector<HealthProblem>& problems() const { return problems_; }

 private:
  const Clock& clock_;
  const std::function<void()> changed_;
  std::vector<HealthProblem> problems_;
};

}  // namespace rung::bridge
