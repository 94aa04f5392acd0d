// What `rung run` makes of the config for the bridge, and logs at its start.
// Thread: main's.
#pragma once

#include "src/bridge/bridge.h"
#include "src/config/config.h"

namespace rung::cli {

// `tracer`: nullptr = no traces.
bridge::BridgeSettings bridge_settings(const Config& config, bridge::Tracer* tracer);
void log_settings(const Config& config);

}  // namespace rung::cli
