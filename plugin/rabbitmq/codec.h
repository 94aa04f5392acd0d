// Messages as AMQP 0-9-1 writes them: the content header (properties and headers) in both directions.
//
// By hand rather than by rabbitmq-c's amqp_table_t: one pass, no structures between, and its decoder recurses
// as deep as a message says (a header of 128 KB can nest 26,000 levels), which would let a message end the
// process.
//
// Field types, as RabbitMQ 3.10's parser has them (rabbit_binary_parser.erl), each kept in both directions:
//   t bool        s int16     l int64    D Decimal       A Array
//   b int8        u uint16    L uint64   T Timestamp     F Table
//   B uint8       I int32     f float    S std::string   V null (monostate)
//                 i uint32    d double   x Bytes
// 'L' stays uint64; RabbitMQ makes 'l' of it when it dead-letters. A queue's, exchange's or header's name and
// a routing key are short strings: 255 bytes.
//
// What it would not take back, and what is sent instead:
//   float or double NaN, infinity   it has no such number and would close the connection: longstr "NaN",
//                                   "Infinity", "-Infinity". None can come from it either.
//   nested deeper than kMaxDepth    on the way in: bytes 'x' that hold the encoded table or array. On the way
//                                   out: refused.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/core/message.h"
#include "src/core/result.h"

namespace rung::rabbit {

inline constexpr int kMaxDepth = 64;
inline constexpr std::size_t kShortMost = 255;  // bytes of a name, and of every text property

// Appends the payload of a content header frame. Permanent errors say what cannot be encoded; `out` is then
// as it was.
Result<void> encode_content_header(const Message& message, std::string& out);

// Fills all but the body. False where the payload is cut or of unknown types; what was read until then is
// kept.
bool decode_content_header(std::string_view payload, Message& message, std::uint64_t& body_size);

// A table with its length before it.
Result<void> encode_table(const Table& table, std::string& out);

// Big-endian writers, for frames too.
void put8(std::string& out, std::uint8_t v);
void put16(std::string& out, std::uint16_t v);
void put32(std::string& out, std::uint32_t v);
void put64(std::string& out, std::uint64_t v);
// REQUIRES: text.size() <= kShortMost
void put_short(std::string& out, std::string_view text);

}  // namespace rung::rabbit
