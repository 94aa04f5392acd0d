// JSON of requests and responses, for HTTP and the command line. Thread: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/base/time.h"

namespace rung::api {

using Json = nlohmann::ordered_json;

// Compact; never throws: invalid UTF-8 is replaced.
std::string dump(const Json& json);

// null: an empty text, or no value.
Json text_or_null(std::string_view text);
Json time_or_null(const std::optional<EpochMs>& time);  // RFC 3339
Json ms_or_null(const std::optional<Ms>& duration);

}  // namespace rung::api
