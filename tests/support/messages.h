// Messages with every kind of content. Thread: pure.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "src/core/message/message.h"

namespace rung::test {

// Every field type of RabbitMQ's AMQP 0-9-1, also nested, at its limits.
inline Table every_field_type() {
  return {{"void", Value{}},
          {"true", true},
          {"false", false},
          {"i8", std::int8_t{-128}},
          {"u8", std::uint8_t{255}},
          {"i16", std::int16_t{-32768}},
          {"u16", std::uint16_t{65535}},
          {"i32", std::numeric_limits<std::int32_t>::min()},
          {"u32", std::numeric_limits<std::uint32_t>::max()},
          {"i64", std::numeric_limits<std::int64_t>::min()},
          {"u64", std::numeric_limits<std::uint64_t>::max()},
          {"float", 1.5F},
          {"double", -2.25e300},
          {"decimal", Decimal{2, -314}},
          {"timestamp", Timestamp{1'700'000'000}},
          {"text", "gr\xC3\xBC\xC3\x9F"},
          {"not utf-8", std::string("\xFF\x00\xFE", 3)},
          {"empty", std::string()},
          {"bytes", Bytes{std::string("\x00\x01\xFF", 3)}},
          {"array", Array{Value{1}, Value{"two"}, Value{Array{}}, Value{Table{{"in", 3.5}}}, Value{}}},
          {"table", Table{{"a", Table{{"b", Array{Value{true}}}}}, {"", "no name"}}},
          {"twice", 1},
          {"twice", 2},
          {std::string(255, 'n'), "longest name"}};
}

// Normalises what a broker may change in headers: RabbitMQ 4 sorts tables by name, and returns an unsigned
// 64-bit number as a signed one with the same bits. If the results are equal, a consumer sees no difference.
inline Value canonical(Value value);
inline Table canonical(Table table) {
  for (auto& [name, value] : table) value = canonical(std::move(value));
  const auto name_of = [](const auto& entry) -> const std::string& { return entry.first; };
  std::ranges::stable_sort(table, {}, name_of);
  const auto later = std::ranges::unique(table, {}, name_of);
  table.erase(later.begin(), later.end());
  return table;
}
inline Value canonical(Value value) {
  if (const auto* u64 = std::get_if<std::uint64_t>(&value.v)) return static_cast<std::int64_t>(*u64);
  if (auto* table = std::get_if<Table>(&value.v)) return canonical(std::move(*table));
  if (auto* array = std::get_if<Array>(&value.v)) {
    for (Value& item : *array) item = canonical(std::move(item));
  }
  return value;
}
inline Message canonical(Message message) {
  if (message.headers) message.headers = canonical(std::move(*message.headers));
  return message;
}

inline Message full_message() {
  Message m;
  m.properties.content_type = "application/json";
  m.properties.content_encoding = "gzip";
  m.properties.delivery_mode = std::uint8_t{2};
  m.properties.priority = std::uint8_t{7};
  m.properties.correlation_id = "c-1";
  m.properties.reply_to = "answers";
  m.properties.message_id = std::string(255, 'i');
  m.properties.timestamp = 1'700'000'000;
  m.properties.type = "";
  m.properties.app_id = "shop";
  m.properties.cluster_id = "cl";
  m.headers = every_field_type();
  m.body = std::string("\x00\x01 body \xFF\xCE", 9);
  return m;
}

}  // namespace rung::test
