#include "src/core/message/message.h"

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"

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

namespace {

using Json = nlohmann::ordered_json;

// Of to_hex() alone, so that a message has one text. Throws std::invalid_argument, caught with the JSON
// library's exceptions.
std::string from_hex(const std::string& hex) {
  const auto bytes = from_hex_digits(hex);
  if (!bytes || to_hex(*bytes) != hex) throw std::invalid_argument("not hex digits");
  return *bytes;
}

// The JSON library scans all keys of an object for each key that it adds or reads: 20,000 headers in one
// message took seconds. A table with more keys than this is written as a list of pairs.
constexpr std::size_t kMostKeys = 64;

Json encode_text(const std::string& text) {
  if (is_utf8(text)) return text;
  return {{"!S", to_hex(text)}};
}

Json encode(const Value& value, int depth);

// `depth` counts the tables and arrays around it, this one included.
Json encode(const Table& table, int depth) {
  std::set<std::string_view> seen;
  bool plain = table.size() <= kMostKeys;
  for (const auto& [key, value] : table) {
    plain = plain && seen.insert(key).second && !key.starts_with('!') && is_utf8(key);
  }
  if (plain) {
    Json object = Json::object();
    for (const auto& [key, value] : table) object[key] = encode(value, depth);
    return object;
  }
  Json pairs = Json::array();
  for (const auto& [key, value] : table)
    pairs.push_back(Json::array({encode_text(key), encode(value, depth)}));
  return {{"!table", std::move(pairs)}};
}

struct Encoder {
  int depth;  // of the container of the value

  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(bool x) const { return x; }
  Json operator()(std::int8_t x) const { return {{"!i8", x}}; }
  Json operator()(std::uint8_t x) const { return {{"!u8", x}}; }
  Json operator()(std::int16_t x) const { return {{"!i16", x}}; }
  Json operator()(std::uint16_t x) const { return {{"!u16", x}}; }
  Json operator()(std::int32_t x) const { return {{"!i32", x}}; }
  Json operator()(std::uint32_t x) const { return {{"!u32", x}}; }
  Json operator()(std::int64_t x) const { return x; }
  Json operator()(std::uint64_t x) const { return {{"!u64", x}}; }
  // JSON has no NaN or infinity: writes their bits.
  Json operator()(float x) const {
    if (!std::isfinite(x)) return {{"!f32bits", std::bit_cast<std::uint32_t>(x)}};
    return {{"!f32", x}};
  }
  Json operator()(double x) const {
    if (!std::isfinite(x)) return {{"!f64bits", std::bit_cast<std::uint64_t>(x)}};
    return x;
  }
  Json operator()(const Decimal& x) const { return {{"!dec", Json::array({x.scale, x.value})}}; }
  Json operator()(const Timestamp& x) const { return {{"!ts", x.seconds}}; }
  Json operator()(const std::string& x) const { return encode_text(x); }
  Json operator()(const Bytes& x) const { return {{"!bytes", to_hex(x.data)}}; }
  Json operator()(const Array& x) const {
    if (depth == kDeepestNesting) return kTooDeep;
    Json array = Json::array();
    for (const Value& element : x) array.push_back(encode(element, depth + 1));
    return array;
  }
  Json operator()(const Table& x) const {
    if (depth == kDeepestNesting) return kTooDeep;
    return encode(x, depth + 1);
  }
};

Json encode(const Value& value, int depth) { return std::visit(Encoder{depth}, value.v); }

Value decode(const Json& json, int depth);

// The library's own conversion wraps around and takes a bool for a number.
template <typename Int>
Int decode_int(const Json& json) {
  const bool fits = json.is_number_unsigned()
                        ? std::in_range<Int>(json.get<std::uint64_t>())
                        : json.is_number_integer() && std::in_range<Int>(json.get<std::int64_t>());
  if (!fits) throw std::invalid_argument("not a number of that width");
  return json.get<Int>();
}

std::string decode_text(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  return from_hex(json.at("!S").get<std::string>());
}

Table decode_table(const Json& json, int depth) {
  if (!json.is_object()) throw std::invalid_argument("not a table");
  if (depth > kDeepestNesting) throw std::invalid_argument("nested too deep");
  Table table;
  if (const auto pairs = json.find("!table"); pairs != json.end()) {
    if (!pairs->is_array()) throw std::invalid_argument("not a list of pairs");
    for (const Json& pair : *pairs) table.emplace_back(decode_text(pair.at(0)), decode(pair.at(1), depth));
    return table;
  }
  for (const auto& [key, value] : json.items()) table.emplace_back(key, decode(value, depth));
  return table;
}

// {"!tag": x}: the types that JSON does not have.
Value decode_tagged(const std::string& tag, const Json& x) {
  if (tag == "!i8") return decode_int<std::int8_t>(x);
  if (tag == "!u8") return decode_int<std::uint8_t>(x);
  if (tag == "!i16") return decode_int<std::int16_t>(x);
  if (tag == "!u16") return decode_int<std::uint16_t>(x);
  if (tag == "!i32") return decode_int<std::int32_t>(x);
  if (tag == "!u32") return decode_int<std::uint32_t>(x);
  if (tag == "!u64") return decode_int<std::uint64_t>(x);
  if (tag == "!f32") return x.get<float>();
  if (tag == "!f32bits") return std::bit_cast<float>(decode_int<std::uint32_t>(x));
  if (tag == "!f64bits") return std::bit_cast<double>(decode_int<std::uint64_t>(x));
  if (tag == "!dec") return Decimal{decode_int<std::uint8_t>(x.at(0)), decode_int<std::int32_t>(x.at(1))};
  if (tag == "!ts") return Timestamp{decode_int<std::uint64_t>(x)};
  if (tag == "!S") return from_hex(x.get<std::string>());
  if (tag == "!bytes") return Bytes{from_hex(x.get<std::string>())};
  throw std::invalid_argument("unknown type " + tag);
}

Value decode(const Json& json, int depth) {
  switch (json.type()) {
    case Json::value_t::null:
      return {};
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return decode_int<std::int64_t>(json);
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::array: {
      if (depth >= kDeepestNesting) throw std::invalid_argument("nested too deep");
      Array array;
      for (const Json& element : json) array.push_back(decode(element, depth + 1));
      return array;
    }
    case Json::value_t::object:
      break;
    default:
      throw std::invalid_argument("not a header value");
  }
  if (json.size() == 1 && json.begin().key().starts_with('!') && json.begin().key() != "!table") {
    return decode_tagged(json.begin().key(), json.begin().value());
  }
  return decode_table(json, depth + 1);
}

template <typename Decode>
auto guarded(std::string_view text, const Decode& decode_json) -> Result<decltype(decode_json(Json{}))> {
  try {
    return decode_json(Json::parse(text));
  } catch (const std::exception& e) {
    return permanent(std::string("a stored message's properties or headers cannot be read: ") + e.what());
  }
}

}  // namespace

std::string properties_to_json(const Properties& properties) {
  Json json = Json::object();
  each_property(properties, [&](const char* name, const auto& field) {
    if (!field) return;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(*field)>, std::string>) {
      json[name] = encode_text(*field);
    } else {
      json[name] = *field;
    }
  });
  return json.dump();
}

Result<Properties> properties_from_json(std::string_view text) {
  return guarded(text, [](const Json& json) {
    if (!json.is_object()) throw std::invalid_argument("not an object");
    Properties properties;
    each_property(properties, [&](const char* name, auto& field) {
      const auto it = json.find(name);
      if (it == json.end()) return;
      using T = typename std::remove_cvref_t<decltype(field)>::value_type;
      if constexpr (std::is_same_v<T, std::string>) {
        field = decode_text(*it);
      } else {
        field = decode_int<T>(*it);
      }
    });
    return properties;
  });
}

std::string indexed_value(const Message& message, std::string_view header) {
  const Value* value = find(message.headers, header);
  if (value == nullptr || std::holds_alternative<std::monostate>(value->v)) return {};
  if (const std::string* text = value->as_text()) return clean_utf8(*text, kIndexedBytes);
  const Json json = encode(*value, 1);
  const bool tagged = json.is_object() && json.size() == 1 && json.begin().key().starts_with('!') &&
                      json.begin().value().is_number();
  return clean_utf8((tagged ? json.begin().value() : json).dump(), kIndexedBytes);
}

std::string headers_to_json(const Table& headers) { return encode(headers, 1).dump(); }

Result<Table> headers_from_json(std::string_view text) {
  return guarded(text, [](const Json& json) { return decode_table(json, 1); });
}

}  // namespace rung
