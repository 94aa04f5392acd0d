// Durations as people write them: "250ms", "5s", "1m30s", "2d".
// Thread: pure functions. Unit: milliseconds throughout.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace rung::levels {

using Ms = std::chrono::milliseconds;

// The longest accepted duration: 10 years. Far above any ladder, far below any overflow.
inline constexpr Ms kLongest{std::chrono::hours{24 * 3650}};

// Units ms, s, m, h, d, largest first, each at most once: "1h30m". No fraction, no sign, no blank, no bare
// number (except "0", which a caller that needs a delay rejects). The error says what is wrong and what would
// be right, e.g. for "1.5h": "fractions are not supported, write 1h30m".
tl::expected<Ms, std::string> parse_duration(std::string_view text);

// The exact inverse of parse_duration, in the largest units: 90'000 ms -> "1m30s"; 0 -> "0s".
std::string format_duration(Ms duration);

}  // namespace rung::levels
