// The built-in ladders: levels/*.yaml as text, in the form that follows `ladders.NAME:` in a config. The
// caller parses the YAML, not this room.
// Thread: pure functions over constants.
#pragma once

#include <span>
#include <string_view>

namespace rung::levels {

struct ReadyLadder {
  std::string_view name, yaml;
};

// In alphabetical order.
std::span<const ReadyLadder> ready_ladders();

}  // namespace rung::levels
