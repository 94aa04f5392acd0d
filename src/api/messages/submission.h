// Parses a task submitted as JSON: the body of POST /v1/tasks, or a line of `rung submit --jsonl`.
// Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "src/api/base/fields.h"
#include "src/api/base/json.h"
#include "src/core/base/result.h"
#include "src/core/machine/by_hand.h"
#include "src/core/message/message.h"
#include "src/core/rules/policy.h"

namespace rung::api {

inline constexpr std::size_t kMostTasks = 1000;  // per request

struct ReadTask {
  Submission submission;
  std::string content;  // fingerprint of everything but delay and at, to recognise repeated submissions
};

// Adds errors to `errors`; then the result is invalid. `who` is recorded in the row's origin. `reserved`:
// headers that it may not have, because they mean something to the broker.
ReadTask read_task(const Json& json, std::string prefix, const RuleBook& rules,
                   const ReservedHeaders& reserved, std::string_view who, FieldErrors& errors);

// The bytes of `body` (text, or a value that becomes JSON) or `body_base64`; none: neither is given, or an
// error.
std::optional<std::string> read_body_bytes(Fields& fields);

// Standard alphabet, with or without padding, no spaces. nullopt for anything else.
std::optional<std::string> from_base64(std::string_view text);
std::string to_base64(std::string_view bytes);

// Headers that people set, in submitted and edited messages.
// From the format of retry_current: JSON's types, and {"!i32": 5} for other types. Errors: for people.
Result<Table> headers_of(const Json& json);
// Why no message can have these headers; "" = one can.
std::string why_no_headers(const Table& headers);

// It means something to the broker or to Rung: no message may set it.
bool is_reserved(std::string_view name, const ReservedHeaders& reserved);
std::string reserved_text(std::string_view name);

}  // namespace rung::api
