// `rung run`: the sidecar in the foreground.
// Thread: main's; returns when the sidecar has ended.
#pragma once

#include <string>

#include "src/config/config.h"

namespace rung::cli {

// 0 after SIGTERM or SIGINT, 1 for a user error (config, newer schema, a node name used twice).
int run_sidecar(const std::string& config_path, const GroupChoice& choice);

}  // namespace rung::cli
