#include "src/core/message/message.h"

#include <limits>
#include <type_traits>

#include "src/core/base/utf8.h"

namespace rung {

const std::string& Body::str() const {
  static const std::string none;
  return bytes_ ? *bytes_ : none;
}

Value::Value() noexcept = default;
Value::Value(const Value& other) = default;
Value::Value(Value&& other) noexcept = default;
Value& Value::operator=(const Value& other) = default;
Value& Value::operator=(Value&& other) noexcept = default;
Value::~Value() = default;
bool Value::operator==(const Value& other) const { return v == other.v; }

std::optional<std::int64_t> Value::as_int() const {
  return std::visit(
      [](const auto& x) -> std::optional<std::int64_t> {
        using T = std::remove_cvref_t<decltype(x)>;
        if constexpr (std::is_same_v<T, std::uint64_t>) {
          if (x > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
          return static_cast<std::int64_t>(x);
        } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
          return static_cast<std::int64_t>(x);
        } else {
          return std::nullopt;
        }
      },
      v);
}

const std::string* Value::as_text() const {
  if (const auto* text = std::get_if<std::string>(&v)) return text;
  if (const auto* bytes = std::get_if<Bytes>(&v)) return &bytes->data;
  return nullptr;
}

const Value* find(const Table& table, std::string_view name) {
  for (const auto& [key, value] : table) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Value* find(const std::optional<Table>& table, std::string_view name) {
  return table ? find(*table, name) : nullptr;
}

std::string indexed_value(const Message& message, std::string_view header) {
  const Value* value = find(message.headers, header);
  if (value == nullptr) return {};
  if (const auto* truth = std::get_if<bool>(&value->v)) return *truth ? "true" : "false";
  if (const auto number = value->as_int()) return std::to_string(*number);
  const auto* text = std::get_if<std::string>(&value->v);
  return text != nullptr && is_utf8(*text) ? clean_utf8(*text, kIndexedBytes) : std::string();
}

}  // namespace rung
