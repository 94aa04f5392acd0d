// events.json, embedded by the build. Thread: any.
#pragma once

#include <string>

namespace rung::cli {

std::string events_json();

}  // namespace rung::cli
