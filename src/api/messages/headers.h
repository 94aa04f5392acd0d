// Headers that people set: submitted and edited messages. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "src/api/json/json.h"
#include "src/core/base/result.h"
#include "src/core/message/broker_facts.h"
#include "src/core/message/message.h"

namespace rung::api {

// From the format of retry_current: JSON's types, and {"!i32": 5} for other types. Errors: for people.
Result<Table> headers_of(const Json& json);
// Why no message can have these headers; "" = one can.
std::string why_no_headers(const Table& headers);

// It means something to the broker or to Rung: no message may set it.
bool is_reserved(std::string_view name, const ReservedHeaders& reserved);
std::string reserved_text(std::string_view name);

}  // namespace rung::api
