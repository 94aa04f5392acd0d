// JSON of requests and responses, for HTTP and the command line. Thread: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rung::api {

using Json = nlohmann::ordered_json;

// Compact; never throws: invalid UTF-8 is replaced.
std::string dump(const Json& json);

}  // namespace rung::api
