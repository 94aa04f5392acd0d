#include "src/core/message/header_values.h"

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "src/core/base/utf8.h"

namespace rung {
namespace {

constexpr auto kOurs = std::to_array<std::string_view>(
    {header::kId,          header::kAttempt,       header::kLevel,          header::kLevels,
     header::kLadder,      header::kQueue,         header::kError,          header::kAfter,
     header::kMaxAttempts, header::kFirstFailedAt, header::kNever,          header::kErrorType,
     header::kResult,      header::kNotBefore,     header::kExecutor,       header::kExchange,
     header::kRoutingKey,  header::kToken,         header::kOriginExchange, header::kOriginRoutingKey,
     header::kReason});

}  // namespace

bool is_own_header(std::string_view name) { return std::ranges::find(kOurs, name) != kOurs.end(); }

}  // namespace rung

namespace rung::reading {
namespace {

constexpr std::size_t kShown = 40;  // bytes of a quoted value

std::int64_t truncated(double value) {
  constexpr double kMost = 9.2e18;  // near the limits of an int64
  return static_cast<std::int64_t>(std::clamp(value, -kMost, kMost));
}

}  // namespace

const Value* said(const std::optional<Table>& headers, std::string_view name) {
  const Value* value = find(headers, name);
  return value != nullptr && !std::holds_alternative<std::monostate>(value->v) ? value : nullptr;
}

std::string text_of(const Value* value) {
  const std::string* text = value != nullptr ? value->as_text() : nullptr;
  return text != nullptr ? *text : std::string{};
}

std::optional<std::int64_t> int_of(const Value* value) {
  static const RE2 form("[+-]?[0-9]+");
  if (value == nullptr) return std::nullopt;
  const std::string* text = value->as_text();
  if (text == nullptr) return value->as_int();
  if (!RE2::FullMatch(*text, form)) return std::nullopt;
  return std::strtoll(text->c_str(), nullptr, 10);  // at the limits of an int64 if it is beyond them
}

std::optional<std::int64_t> number_of(const Value& value) {
  if (const float* f = std::get_if<float>(&value.v); f != nullptr && !std::isnan(*f)) return truncated(*f);
  if (const double* d = std::get_if<double>(&value.v); d != nullptr && !std::isnan(*d)) return truncated(*d);
  if (const Decimal* d = std::get_if<Decimal>(&value.v))
    return truncated(static_cast<double>(d->value) / std::pow(10.0, d->scale));
  const bool too_large = std::holds_alternative<std::uint64_t>(value.v) && !value.as_int();
  return too_large ? std::numeric_limits<std::int64_t>::max() : int_of(&value);
}

std::string shown(const Value& value) {
  const std::string* text = value.as_text();
  return text != nullptr ? " '" + clean_utf8(*text, kShown) + "'" : std::string();
}

std::string queue_name(const Value* value) {
  std::string name = text_of(value);
  return name.size() <= 255 && is_utf8(name) ? name : std::string{};
}

void complain(std::string& complaint, std::string_view name, std::string_view wants) {
  if (!complaint.empty()) complaint += "; ";
  complaint.append(name).append(" is not understood: expected ").append(wants);
}

}  // namespace rung::reading
