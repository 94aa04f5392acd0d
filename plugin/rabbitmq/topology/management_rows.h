// Reads the JSON of RabbitMQ's management API: values, and rows. Thread: pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/rabbitmq/topology/dead_letter_routes.h"
#include "plugin/rabbitmq/topology/management.h"

namespace rung::rabbit {

using nlohmann::json;

inline constexpr int kMostNesting = 32;  // of arrays and objects

inline std::string dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Whether arrays and objects are nested at most so deep: each level takes far more memory than its byte.
inline bool nested_within(std::string_view text, int most) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size() && depth <= most; ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return depth <= most;
}

inline std::string text_at(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

inline std::int64_t number_at(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_integer() ? it->get<std::int64_t>() : 0;
}

inline bool flag_at(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_boolean() && it->get<bool>();
}

// The API returns an empty object sometimes as {}, sometimes as [].
inline std::optional<std::string> text_in(const json& object, const char* table, const char* key) {
  const auto it = object.find(table);
  if (it == object.end() || !it->is_object() || !it->contains(key)) return std::nullopt;
  return text_at(*it, key);
}
// An object, as text; {} if there is none.
inline std::string table_at(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_object() ? dump(*it) : "{}";
}

QueueFacts queue_facts_of(const json& row);
// REQUIRES: `row` is an object.
Binding binding_of(const json& row);
Policy policy_of(const json& row);

}  // namespace rung::rabbit
