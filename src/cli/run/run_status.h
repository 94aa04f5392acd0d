// The line that `systemctl status` shows for a sidecar. Thread: pure.
#pragma once

#include <string>

#include "src/bridge/vitals.h"

namespace rung::cli {

// One short sentence without line ends: what is waited for, what is wrong, or that it serves.
std::string status_line(const bridge::Vitals& vitals, const bridge::StartState& start);

}  // namespace rung::cli
