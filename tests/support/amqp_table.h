// Converts Rung's values to rabbitmq-c's structures and back. Used by the probe only, and independent of
// plugin/rabbitmq/wire/codec.
#pragma once

#include <amqp.h>
#include <amqp_framing.h>

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/message/message.h"

namespace rung::test {

inline amqp_bytes_t bytes_of(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }
inline std::string string_of(amqp_bytes_t bytes) {
  return bytes.len == 0 ? std::string() : std::string(static_cast<const char*>(bytes.bytes), bytes.len);
}

// Holds what an amqp_table_t points to. The strings themselves stay in the Table it was made from.
class TableArena {
 public:
  amqp_table_t table(const Table& table);

 private:
  amqp_field_value_t value(const Value& value);
  std::deque<std::vector<amqp_table_entry_t>> tables_;
  std::deque<std::vector<amqp_field_value_t>> arrays_;
};

Table table_from(const amqp_table_t& table);
Value value_from(const amqp_field_value_t& value);

amqp_basic_properties_t properties_of(const Message& message, TableArena& arena);
void properties_into(Message& message, const amqp_basic_properties_t& properties);

}  // namespace rung::test
