// Errors as RFC 9457 has them: application/problem+json with what is wrong and what would be right.
// Thread: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/api/fields.h"
#include "src/core/result.h"
#include "src/http/message.h"

namespace rung::http {

using api::dump;
using api::FieldError;
using api::FieldErrors;
using api::Json;

// "Bad Request": the title that belongs to a status.
std::string_view title_of(int status);

// The object alone: bulk answers hold it item by item. `more`: further members.
Json problem_json(int status, std::string_view detail, std::string_view instance, const Json& more = Json());
// The same for fields: the detail names the first, `errors` all of them.
Json problem_json(const FieldErrors& errors, std::string_view instance);

Response problem(int status, std::string_view detail, std::string_view instance, const Json& more = Json());
Response problem(const FieldErrors& errors, std::string_view instance);
// What a store or the bridge said: transient is 503 with Retry-After, not_found 404, the rest 500.
Response problem(const Error& error, std::string_view instance);

// Control and format characters in its texts are escaped: answers are api::shown on terminals, too.
Response answer(int status, const Json& json);

}  // namespace rung::http
