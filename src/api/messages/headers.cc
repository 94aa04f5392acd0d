#include "src/api/messages/headers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <variant>

#include "src/api/json/fields.h"
#include "src/core/message/header_names.h"
#include "src/core/message/message_json.h"

namespace rung::api {
namespace {

// A message's headers must fit into one frame (128 KB in RabbitMQ), with its properties and what Rung adds.
constexpr std::size_t kMostHeaderBytes = 120 * 1024;
constexpr std::size_t kMostHeaders = 256;  // per table

bool crowded(const Json& json) {
  if (json.is_structured() && json.size() > kMostHeaders && json.is_object()) return true;
  return json.is_structured() && std::ranges::any_of(json, [](const Json& inner) { return crowded(inner); });
}

// Names are AMQP short strings, also in nested tables.
bool names_fit(const Table& table);
bool names_fit(const Value& value) {
  if (const auto* table = std::get_if<Table>(&value.v)) return names_fit(*table);
  const auto* array = std::get_if<Array>(&value.v);
  return array == nullptr || std::ranges::all_of(*array, [](const Value& v) { return names_fit(v); });
}
bool names_fit(const Table& table) {
  return std::ranges::all_of(
      table, [](const auto& entry) { return entry.first.size() <= kNameBytes && names_fit(entry.second); });
}

// A lower bound of the size in AMQP's encoding.
std::size_t frame_bytes(const Table& table);
std::size_t frame_bytes(const Value& value) {
  constexpr std::size_t kType = 1, kLength = 4, kNumber = 8;
  if (const auto* text = value.as_text()) return kType + kLength + text->size();
  if (const auto* table = std::get_if<Table>(&value.v)) return kType + frame_bytes(*table);
  const auto* array = std::get_if<Array>(&value.v);
  if (array == nullptr) return kType + kNumber;
  std::size_t bytes = kType + kLength;
  for (const Value& inner : *array) bytes += frame_bytes(inner);
  return bytes;
}
std::size_t frame_bytes(const Table& table) {
  std::size_t bytes = 4;
  for (const auto& [name, value] : table) bytes += 1 + name.size() + frame_bytes(value);
  return bytes;
}

}  // namespace

Result<Table> headers_of(const Json& json) {
  if (!json.is_object()) return permanent("must be an object: {\"tenant\": \"acme\"}");
  // Checked before reading, which is quadratic in the number of names.
  if (crowded(json)) return permanent("more than " + std::to_string(kMostHeaders) + " headers in one table");
  auto table = headers_from_json(dump(json));
  if (!table) {
    return permanent(
        "unsupported value: use a string, number, true, false, null, list or object, or an AMQP type such as "
        "{\"!i32\": 5}");
  }
  return table;
}

std::string why_no_headers(const Table& headers) {
  if (headers.size() > kMostHeaders)
    return "more than " + std::to_string(kMostHeaders) + " headers in one table";
  if (!names_fit(headers)) return "a header name is longer than 255 bytes";
  if (frame_bytes(headers) <= kMostHeaderBytes) return {};
  return "the headers exceed " + std::to_string(kMostHeaderBytes) + " bytes, the limit for one frame";
}

bool is_reserved(std::string_view name, const ReservedHeaders& reserved) {
  return reserved.contains(name) || is_own_header(name);
}

std::string reserved_text(std::string_view name) {
  return shown(name) + " is reserved for the broker or for Rung: leave it out";
}

}  // namespace rung::api
