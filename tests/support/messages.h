// Messages with everything in them. Thread: pure.
#pragma once

#include <limits>
#include <string>

#include "src/core/message.h"

namespace rung::test {

// Every field type of RabbitMQ's AMQP 0-9-1, nested ones too, at their limits.
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
