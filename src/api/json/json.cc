#include "src/api/json/json.h"

#include <nlohmann/json.hpp>

#include "src/core/base/time.h"

namespace rung::api {

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json text_or_null(std::string_view text) { return text.empty() ? Json() : Json(text); }
Json time_or_null(const std::optional<EpochMs>& time) { return time ? Json(to_rfc3339(*time)) : Json(); }
Json ms_or_null(const std::optional<Ms>& duration) { return duration ? Json(duration->count()) : Json(); }

}  // namespace rung::api
