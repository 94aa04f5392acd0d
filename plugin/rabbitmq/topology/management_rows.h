// Reads the JSON of RabbitMQ's management API: values, and rows. Thread: pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

inline QueueFacts queue_facts_of(const json& row) {
  QueueFacts facts{text_in(row, "arguments", "x-dead-letter-exchange"), text_at(row, "policy"),
                   text_at(row, "type"), text_at(row, "name")};
  facts.arguments = table_at(row, "arguments");
  if (const auto it = row.find("effective_policy_definition"); it != row.end() && it->is_object())
    facts.effective_policy = dump(*it);
  facts.operator_policy = text_at(row, "operator_policy");
  facts.exclusive = flag_at(row, "exclusive");
  facts.auto_delete = flag_at(row, "auto_delete");
  facts.durable = !row.contains("durable") || flag_at(row, "durable");
  if (std::string node = text_at(row, "node"); !node.empty()) facts.nodes.push_back(std::move(node));
  if (const auto it = row.find("members"); it != row.end() && it->is_array()) {  // of a quorum queue
    for (const json& member : *it) {
      if (member.is_string()) facts.nodes.push_back(member.get<std::string>());
    }
  }
  return facts;
}

// REQUIRES: `row` is an object.
inline Binding binding_of(const json& row) {
  return {text_at(row, "source"), text_at(row, "routing_key"), table_at(row, "arguments")};
}

inline Policy policy_of(const json& row) {
  return {text_at(row, "name"), text_at(row, "pattern"), text_at(row, "apply-to"),
          table_at(row, "definition"), static_cast<int>(number_at(row, "priority"))};
}

}  // namespace rung::rabbit
