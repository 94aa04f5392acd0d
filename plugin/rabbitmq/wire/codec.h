// Encodes and decodes messages as AMQP 0-9-1: the content header (properties and headers) in both directions.
//
// Hand-written instead of rabbitmq-c's amqp_table_t: one pass, no intermediate structures. Its decoder
// recurses as deep as the message nests (a header of 128 KB can nest 26,000 levels), so a message could crash
// the process.
//
// Field types as in RabbitMQ 3.10's parser (rabbit_binary_parser.erl), each preserved in both directions:
//   t bool        s int16     l int64    D Decimal       A Array
//   b int8        u uint16    L uint64   T Timestamp     F Table
//   B uint8       I int32     f float    S std::string   V null (monostate)
//                 i uint32    d double   x Bytes
// 'L' stays uint64; RabbitMQ turns it into 'l' when it dead-letters. Names of queues, exchanges and headers,
// and routing keys, are short strings: 255 bytes.
//
// Values that RabbitMQ would not accept back, and what we send instead:
//   float or double NaN, infinity   it has no such number and would close the connection: longstr "NaN",
//                                   "Infinity", "-Infinity". None can come from it either.
//   nested deeper than kMaxDepth    inbound: bytes 'x' that hold the encoded table or array.
//                                   Outbound: refused.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/core/base/result.h"
#include "src/core/message/message.h"

namespace rung::rabbit {

inline constexpr int kMaxDepth = 64;
inline constexpr std::size_t kShortMost = 255;  // bytes of a name, and of every text property

// Appends the payload of a content header frame. Permanent errors say what cannot be encoded, and leave `out`
// unchanged.
Result<void> encode_content_header(const Message& message, std::string& out);

// Fills everything except the body. False if the payload is truncated or has unknown types; keeps what it had
// read until then.
bool decode_content_header(std::string_view payload, Message& message, std::uint64_t& body_size);

// Big-endian writers, also used for frames.
void put8(std::string& out, std::uint8_t v);
void put16(std::string& out, std::uint16_t v);
void put32(std::string& out, std::uint32_t v);
void put64(std::string& out, std::uint64_t v);
// REQUIRES: text.size() <= kShortMost
void put_short(std::string& out, std::string_view text);

}  // namespace rung::rabbit
