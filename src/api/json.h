// JSON of requests and answers, as HTTP and the command line have it. Thread: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace rung::api {

using Json = nlohmann::ordered_json;

// Compact; never throws: broken UTF-8 is replaced.
std::string dump(const Json& json);

}  // namespace rung::api
