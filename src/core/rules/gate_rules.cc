#include "src/core/rules/gate_rules.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

namespace rung {
bool GateRules::operator==(const GateRules& other) const {
  const auto rest = [](const GateRules& g) { return std::tie(g.rate, g.rate_by, g.breaker, g.retry_after); };
  const bool same_window =
      window == nullptr || other.window == nullptr ? window == other.window : *window == *other.window;
  return same_window && rest(*this) == rest(other);
}

std::string format_rate(double per_second) {
  // The largest unit of which it is a whole number is what people write.
  constexpr double kClose = 1e-6, kMinute = 60, kHour = 3600;
  for (const auto& [seconds, unit] : {std::pair{1.0, "/s"}, {kMinute, "/m"}, {kHour, "/h"}}) {
    const double number = std::round(per_second * seconds);
    if (std::abs(per_second * seconds - number) < kClose || seconds == kHour)
      return std::to_string(static_cast<std::int64_t>(number)) + unit;
  }
  return {};
}

std::string describe_limits(const GateRules& gate) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (gate.rate > 0) add("rate " + format_rate(gate.rate));
  if (gate.rate_by)
    add("rate " + format_rate(gate.rate_by->per_second) + " for each " + gate.rate_by->header);
  return text;
}

}  // namespace rung
