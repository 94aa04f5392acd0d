// Which failures have the same cause. docs/causes.md states the rule. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace rung {

// Raise it with every change of the rule: tasks are then given new causes.
inline constexpr int kFingerprintVersion = 1;

struct Fingerprint {
  std::string id;    // 12 hexadecimal digits
  std::string text;  // what the failures have in common, besides queue and error type
};

// Of a failure in `queue`. Any bytes are fine; at most kErrorBytes of `error` are looked at, in linear time.
Fingerprint fingerprint(std::string_view queue, std::string_view error_type, std::string_view error);

}  // namespace rung
