// The simulated messages: each has a number, in its body. Thread: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/machine/headers.h"
#include "src/core/message/message.h"

namespace rung::sim {

inline std::string body_of(int number) { return "message " + std::to_string(number); }

// 0 = not one of ours.
inline int number_of(const Message& message) {
  constexpr std::string_view kBegin = "message ";
  if (!message.body.str().starts_with(kBegin)) return 0;
  return std::atoi(message.body.str().c_str() + kBegin.size());
}

inline std::string text_header(const Message& message, std::string_view name) {
  const Value* value = find(message.headers, name);
  const std::string* text = value != nullptr ? value->as_text() : nullptr;
  return text != nullptr ? *text : std::string();
}

inline std::optional<TaskId> id_of(const Message& message) {
  return TaskId::parse(text_header(message, header::kId));
}

inline int int_header(const Message& message, std::string_view name) {
  const Value* value = find(message.headers, name);
  return value != nullptr ? static_cast<int>(value->as_int().value_or(0)) : 0;
}

inline void set_header(Message& message, std::string_view name, const std::string& text) {
  std::erase_if(*message.headers, [&](const auto& header) { return header.first == name; });
  message.headers->emplace_back(std::string(name), text);
}

}  // namespace rung::sim
