// Which tasks a list or a bulk means, as the JSON object that the API takes: {"queue": "orders", "state":
// "parked"}. Each condition is a string, named as the parameter of GET /v1/tasks. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "src/api/json/json.h"
#include "src/store/queries.h"

namespace rung::api {

// Without place, order and limit.
Json filter_json(const Filter& filter);

// That of a bulk's row, whose text is JSON if the bulk was created over HTTP, and flags if by the command
// line:
// "--queue orders --state parked".
Json filter_of_text(const std::string& text);

}  // namespace rung::api
