#include "src/bridge/base/health.h"

#include <algorithm>

namespace rung::bridge {
void Health::set(std::string_view name, std::string detail, Effect effect) {
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

void Health::clear(std::string_view name) {
  if (std::erase_if(problems_, [&](const HealthProblem& p) { return p.name == name; }) > 0) changed_();
}

bool Health::show(std::string_view name, const std::string& detail) {
  if (detail.empty()) {
    clear(name);
    return false;
  }
  const bool begins = !has(name);
  set(name, detail);
  return begins;
}

bool Health::has(std::string_view name) const {
  return std::ranges::find(problems_, name, &HealthProblem::name) != problems_.end();
}

}  // namespace rung::bridge
