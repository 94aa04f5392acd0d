// The sidecar, in the foreground. Thread: main's, which runs the loop until the sidecar has ended.
#pragma once

#include <string>

#include "src/config/config.h"

namespace rung::sidecar {

// 0 after SIGTERM or SIGINT, 1 for a user error (config, newer schema, a node name used twice).
int run(const std::string& config_path, const GroupChoice& choice);

}  // namespace rung::sidecar
