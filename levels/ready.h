// The ready ladders, levels/*.yaml as text: what would stand after `ladders.NAME:` in a config. Whoever reads
// them parses YAML; this room doesn't.
// Thread: pure functions over constants.
#pragma once

#include <string_view>
#include <vector>

namespace rung::levels {

// In alphabetical order.
std::vector<std::string_view> ready_ladder_names();

// "" where there is none of that name.
std::string_view ready_ladder_yaml(std::string_view name);

}  // namespace rung::levels
