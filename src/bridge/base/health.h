// The current problems of this instance, by name. The component that detects a problem sets it, and clears it
// when it is over; /readyz, the metric rung_problem, `rung stats` and `rung nodes` show them.
// Thread: the loop's.
#pragma once

#include <algorithm>
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
  void set(std::string_view name, std::string detail, Effect effect = Effect::warning) {
    const bool not_ready = effect == Effect::not_ready;
    const auto it = std::ranges::find(problems_, name, &HealthProblem::name);
    if (it == problems_.end()) {
      problems_.push_back({std::string(name), std::move(detail), clock_.wall(), not_ready});
    } else {
      if (it->detail == detail && it->not_ready == not_ready) return;
      it->detail = std::move(detail);
      it->not_ready = not_ready;
    }
    changed_();
  }
  void clear(std::string_view name) {
    if (std::erase_if(problems_, [&](const HealthProblem& p) { return p.name == name; }) > 0) changed_();
  }
  // Sets a warning, or clears it if `detail` is empty. Returns whether it is new.
  bool show(std::string_view name, const std::string& detail) {
    if (detail.empty()) {
      clear(name);
      return false;
    }
    const bool begins = !has(name);
    set(name, detail);
    return begins;
  }
  bool has(std::string_view name) const {
    return std::ranges::find(problems_, name, &HealthProblem::name) != problems_.end();
  }
  const std::vector<HealthProblem>& problems() const { return problems_; }

 private:
  const Clock& clock_;
  const std::function<void()> changed_;
  std::vector<HealthProblem> problems_;
};

}  // namespace rung::bridge
