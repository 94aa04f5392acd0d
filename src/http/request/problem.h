// Errors as in RFC 9457: application/problem+json that says what is wrong and what would be right.
// Thread: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/api/json/fields.h"
#include "src/core/base/result.h"
#include "src/http/request/message.h"

namespace rung::http {

using api::dump;
using api::FieldError;
using api::FieldErrors;
using api::Json;

// "Bad Request": the title of a status.
std::string_view title_of(int status);

// "state_conflict": what went wrong, for scripts, where no better one is given (member `code`). In
// docs/http.md.
std::string_view code_of(int status);

// The object alone: bulk responses contain one per item. `more`: further members.
Json problem_json(int status, std::string_view detail, std::string_view instance, const Json& more);
// The same for fields: the detail names the first error, `errors` all of them.
Json problem_json(const FieldErrors& errors, std::string_view instance);

Response problem(int status, std::string_view detail, std::string_view instance);
Response problem(int status, std::string_view detail, std::string_view instance, const Json& more);
Response problem(const FieldErrors& errors, std::string_view instance);
// The response to an error of a store or the bridge: transient is 503 with Retry-After, not_found 404, the
// rest 500.
Response problem(const Error& error, std::string_view instance);

// Escapes control and format characters in the texts: responses are shown on terminals, too.
Response answer(int status, const Json& json);

}  // namespace rung::http
