// The built-in dialects: plugin/rabbitmq/dialects/*.yaml as text. src/config parses them.
// Thread: pure functions over constants.
#pragma once

#include <span>
#include <string_view>

namespace rung::rabbit {

struct ReadyDialect {
  std::string_view name, yaml;
};

// In alphabetical order.
std::span<const ReadyDialect> ready_dialects();

}  // namespace rung::rabbit
