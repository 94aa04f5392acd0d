// Which failures have the same cause. docs/causes.md states the rule. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace rung {

struct Fingerprint {
  std::string id;    // 12 hexadecimal digits
  std::string text;  // what was hashed besides queue and type, for people; at most 500 bytes of it, UTF-8
};

// Of a failure in `queue`. Any bytes are fine; at most 16 KB (kErrorBytes) of `error` are looked at, in
// linear time.
Fingerprint fingerprint(std::string_view queue, std::string_view error_type, std::string_view error);

}  // namespace rung
