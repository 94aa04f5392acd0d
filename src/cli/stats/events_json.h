// docs/events.md, embedded by the build. Thread: any.
#pragma once

#include <string>

namespace rung::cli {

std::string events_page();

}  // namespace rung::cli
