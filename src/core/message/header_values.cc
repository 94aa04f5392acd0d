#include "src/core/message/header_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

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

Number number_of(double value) {
  if (std::isnan(value)) return {};
  // The limits of an int64.
  if (value >= 9.2e18) return {0, true, true};
  return {value <= -9.2e18 ? -1 : static_cast<std::int64_t>(value), true, false};
}

Number number_of(const std::string& text) {
  const char* from = text.data();
  const char* const end = from + text.size();
  if (from != end && *from == '+') ++from;
  Number number;
  const auto [stopped, error] = std::from_chars(from, end, number.value);
  if (stopped != end || from == end || error == std::errc::invalid_argument ||
      (from != text.data() && *from == '-'))
    return {};
  number.understood = true;
  if (error == std::errc::result_out_of_range) {
    number.too_large = *from != '-';
    number.value = -1;  // below zero: as wrong as any
  }
  return number;
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
  if (value == nullptr) return std::nullopt;
  if (const auto number = value->as_int()) return number;
  const std::string* text = value->as_text();
  const Number number = text != nullptr ? number_of(*text) : Number{};
  return number.understood && !number.too_large ? std::optional(number.value) : std::nullopt;
}

Number number_of(const Value& value) {
  if (const auto whole = value.as_int()) return {*whole, true, false};
  if (std::holds_alternative<std::uint64_t>(value.v)) return {0, true, true};
  if (const float* f = std::get_if<float>(&value.v)) return number_of(static_cast<double>(*f));
  if (const double* d = std::get_if<double>(&value.v)) return number_of(*d);
  if (const Decimal* d = std::get_if<Decimal>(&value.v))
    return number_of(static_cast<double>(d->value) / std::pow(10.0, d->scale));
  if (const std::string* text = value.as_text()) return number_of(*text);
  return {};
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
