// What rung healthcheck asks. Thread: any.
#pragma once

#include <string>

#include "src/config/config.h"

namespace rung::cli {

// Where a sidecar with this config is reached from its own machine: "http://127.0.0.1:8025".
// REQUIRES: http.listen is set.
std::string own_url(const HttpOptions& http);

}  // namespace rung::cli
