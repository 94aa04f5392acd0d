#include "src/core/gate_rules.h"

#include <tuple>

namespace rung {

bool GateRules::operator==(const GateRules& other) const {
  const auto rest = [](const GateRules& g) {
    return std::tie(g.rate, g.rate_by, g.in_flight, g.breaker, g.retry_after);
  };
  const bool same_window =
      window == nullptr || other.window == nullptr ? window == other.window : *window == *other.window;
  return same_window && rest(*this) == rest(other);
}

}  // namespace rung
