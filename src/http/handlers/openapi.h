// openapi.json, embedded at build. Thread: pure.
#pragma once

#include <string>

namespace rung::http {

std::string openapi_json();

}  // namespace rung::http
