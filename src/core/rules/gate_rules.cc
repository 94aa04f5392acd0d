#include "src/core/rules/gate_rules.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"
#include "src/core/message/message.h"

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

namespace {

constexpr std::string_view kDigestMark = "sha256:";
constexpr std::string_view kStoredMark = "rate_by:";  // before the header's name

std::string digest_of(std::string_view bytes) { return std::string(kDigestMark) + to_hex(sha256(bytes)); }

std::string text_of_bytes(const std::string& bytes) {
  const bool plain = bytes.size() <= kIndexedBytes && is_utf8(bytes) && bytes.find('\0') == std::string::npos;
  return plain ? bytes : digest_of(bytes);
}

template <typename T>
std::string digits_of(T number) {
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return {buffer.data(), end.ptr};
}

std::string digits_of(const Decimal& decimal) {
  if (decimal.value == 0) return "0";
  std::string digits = std::to_string(decimal.value);
  const bool negative = digits.front() == '-';
  if (negative) digits.erase(0, 1);
  if (digits.size() <= decimal.scale) digits.insert(0, decimal.scale - digits.size() + 1, '0');
  if (decimal.scale > 0) {
    digits.insert(digits.size() - decimal.scale, 1, '.');
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
  }
  if (negative) digits.insert(0, 1, '-');
  return digits.size() <= kIndexedBytes ? digits : digest_of(digits);
}

}  // namespace

std::string rate_value(const Message& message, std::string_view header) {
  const Value* value = find(message.headers, header);
  if (value == nullptr) return {};
  return std::visit(
      [&](const auto& x) -> std::string {
        using T = std::remove_cvref_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<T, bool>) {
          return x ? "true" : "false";
        } else if constexpr (std::is_arithmetic_v<T>) {
          return digits_of(x);
        } else if constexpr (std::is_same_v<T, Decimal>) {
          return digits_of(x);
        } else if constexpr (std::is_same_v<T, Timestamp>) {
          return std::to_string(x.seconds);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return text_of_bytes(x);
        } else if constexpr (std::is_same_v<T, Bytes>) {
          return text_of_bytes(x.data);
        } else {
          return digest_of(headers_to_json({{"", *value}}));
        }
      },
      value->v);
}

bool is_digest(std::string_view rate_value) { return rate_value.starts_with(kDigestMark); }

std::string rate_value(const RuleHeaders& stored, std::string_view header) {
  auto found = stored.find(std::string(kStoredMark) + std::string(header));
  if (found == stored.end()) found = stored.find(header);
  return found == stored.end() ? std::string() : found->second;
}

void store_rate_value(RuleHeaders& stored, const Message& message, const std::string& header) {
  std::string value = rate_value(message, header);
  if (value != indexed_value(message, header))
    stored.emplace(std::string(kStoredMark) + header, std::move(value));
}

}  // namespace rung
