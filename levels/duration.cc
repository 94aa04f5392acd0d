#include "levels/duration.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>

namespace rung::levels {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t ms;
};
constexpr std::array<Unit, 5> kUnits = {Unit{"d", 86'400'000}, Unit{"h", 3'600'000}, Unit{"m", 60'000},
                                        Unit{"s", 1'000}, Unit{"ms", 1}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_unit_char(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// -1 = no such unit.
int unit_index(std::string_view name) {
  for (std::size_t i = 0; i < kUnits.size(); ++i) {
    if (kUnits[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

// Units that people know from elsewhere -> our unit; "" = nothing close.
std::string_view meant_unit(std::string_view name) {
  struct Alias {
    std::string_view written, meant;
  };
  constexpr std::array<Alias, 19> kAliases = {
      Alias{"sec", "s"},     {"secs", "s"},          {"second", "s"},  {"seconds", "s"},     {"min", "m"},
      Alias{"mins", "m"},    {"minute", "m"},        {"minutes", "m"}, {"hr", "h"},          {"hrs", "h"},
      Alias{"hour", "h"},    {"hours", "h"},         {"day", "d"},     {"days", "d"},        {"msec", "ms"},
      Alias{"millis", "ms"}, {"milliseconds", "ms"}, {"msecs", "ms"},  {"millisecond", "ms"}};
  std::string low(name);
  std::ranges::transform(low, low.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (const int index = unit_index(low); index >= 0) return kUnits[static_cast<std::size_t>(index)].name;
  for (const auto& alias : kAliases) {
    if (alias.written == low) return alias.meant;
  }
  return {};
}

constexpr std::string_view kExample = "a number and a unit (ms, s, m, h, d), e.g. 30s, 5m or 1h30m";

std::string too_long() { return "longer than " + format_duration(kLongest) + ", the maximum"; }

// "1.5h": what to write instead, if that is a whole number of ms.
std::string fraction_answer(std::string_view text) {
  const auto digits_end = std::min(text.find_first_not_of("0123456789.,"), text.size());
  const int unit = unit_index(text.substr(digits_end));
  std::string digits(text.substr(0, digits_end));
  std::ranges::replace(digits, ',', '.');
  double number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const double exact = unit < 0 ? 0 : number * static_cast<double>(kUnits[static_cast<std::size_t>(unit)].ms);
  const double ms = std::round(exact);
  if (error != std::errc{} || end != digits.data() + digits.size() || std::abs(exact - ms) > 1e-6 || ms < 1 ||
      ms > static_cast<double>(kLongest.count()))
    return "fractions are not supported, write smaller units, e.g. 1h30m for one hour and a half";
  return "fractions are not supported, write " + format_duration(Ms{static_cast<std::int64_t>(ms)});
}

// Errors of the whole text, found before its parts are parsed.
std::optional<std::string> obvious_mistake(std::string_view text) {
  if (text.empty()) return "a duration is missing: " + std::string(kExample);
  if (text.front() == '-') return "a duration cannot be negative";
  if (text.front() == '+') return "a duration has no sign: remove the +";
  if (text.find_first_of(" \t") != std::string_view::npos)
    return "no spaces within a duration: write 5s or 1h30m";
  if (!is_digit(text.front()) && text.front() != '.') return "not a duration: " + std::string(kExample);
  const auto point = text.find_first_of(".,");
  if (point == 0) return "fractions are not supported, write smaller units, e.g. 500ms for half a second";
  if (point != std::string_view::npos) return fraction_answer(text);
  return std::nullopt;
}

struct Part {
  std::int64_t count = 0;
  int unit = 0;
};

// Takes one number and its unit off the front of `text`.
tl::expected<Part, std::string> take_part(std::string_view& text) {
  const auto digits_end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto digits = text.substr(0, digits_end);
  if (digits.empty()) return tl::unexpected("not a duration: " + std::string(kExample));
  text.remove_prefix(digits_end);
  const auto unit_end = static_cast<std::size_t>(std::ranges::find_if_not(text, is_unit_char) - text.begin());
  const auto name = text.substr(0, unit_end);
  text.remove_prefix(unit_end);
  const std::string number(digits.substr(0, 20));  // bounded: it is quoted
  if (name.empty()) {
    if (!text.empty()) return tl::unexpected("not a duration: " + std::string(kExample));
    return tl::unexpected("the unit is missing: write " + number + "s, " + number + "m, " + number + "h or " +
                          number + "d");
  }
  Part part;
  part.unit = unit_index(name);
  if (part.unit < 0) {
    if (const auto meant = meant_unit(name); !meant.empty()) {
      return tl::unexpected("no unit \"" + std::string(name) + "\": write " + number + std::string(meant));
    }
    return tl::unexpected("no unit \"" + std::string(name.substr(0, 20)) + "\": there are ms, s, m, h, d");
  }
  const std::int64_t most = kLongest.count() / kUnits[static_cast<std::size_t>(part.unit)].ms;
  for (const char c : digits) {
    part.count = part.count * 10 + (c - '0');
    if (part.count > most) return tl::unexpected(too_long());
  }
  return part;
}

}  // namespace

tl::expected<Ms, std::string> parse_duration(std::string_view text) {
  if (text == "0") return Ms{0};
  if (auto what = obvious_mistake(text)) return tl::unexpected(*std::move(what));
  std::array<bool, kUnits.size()> seen{};
  std::int64_t total = 0;
  int last = -1;
  bool repeated = false, out_of_order = false;
  while (!text.empty()) {
    const auto part = take_part(text);
    if (!part) return tl::unexpected(part.error());
    const auto unit = static_cast<std::size_t>(part->unit);
    repeated = repeated || seen[unit];
    out_of_order = out_of_order || part->unit < last;
    seen[unit] = true;
    last = part->unit;
    total += part->count * kUnits[unit].ms;
    if (total > kLongest.count()) return tl::unexpected(too_long());
  }
  if (repeated) return tl::unexpected("a unit is repeated: write " + format_duration(Ms{total}));
  if (out_of_order)
    return tl::unexpected("the largest unit comes first: write " + format_duration(Ms{total}));
  return Ms{total};
}

std::string format_duration(Ms duration) {
  if (duration.count() == 0) return "0s";
  // Unsigned, so that the smallest int64 has an absolute value.
  auto rest = static_cast<std::uint64_t>(duration.count());
  std::string out;
  if (duration.count() < 0) {
    out = "-";
    rest = 0 - rest;
  }
  for (const auto& unit : kUnits) {
    const auto size = static_cast<std::uint64_t>(unit.ms);
    if (rest / size != 0) out += std::to_string(rest / size) + std::string(unit.name);
    rest %= size;
  }
  return out;
}

}  // namespace rung::levels
