#include "src/api/json/json.h"

#include <nlohmann/json.hpp>

namespace rung::api {

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace rung::api
