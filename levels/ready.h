// The built-in ladders: levels/*.yaml as text, in the form that follows `ladders.NAME:` in a config. The
// caller parses the YAML, not this room.
// Thread: pure functions over constants.
#pragma once

#include <string_view>
#include <vector>

namespace rung::levels {

// In alphabetical order.
std::vector<std::string_view> ready_ladder_names();

// "" if there is none of that name.
std::string_view ready_ladder_yaml(std::string_view name);

}  // namespace rung::levels
