// Errors as RFC 9457 has them: application/problem+json with what is wrong and what would be right.
// Thread: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/result.h"
#include "src/http/message.h"

namespace rung::http {

using Json = nlohmann::ordered_json;

// What is wrong with one field of a request: "delay", "tasks[3].headers".
struct FieldError {
  std::string field, detail;
  bool operator==(const FieldError&) const = default;
};
using FieldErrors = std::vector<FieldError>;

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

// Control and format characters in its texts are escaped: answers are shown on terminals, too.
Response answer(int status, const Json& json);
// Compact; never throws: broken UTF-8 is replaced.
std::string dump(const Json& json);

}  // namespace rung::http
