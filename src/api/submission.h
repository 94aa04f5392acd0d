// A task that is handed in as JSON: the body of POST /v1/tasks, a line of `rung submit --batch`.
// Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "src/api/fields.h"
#include "src/core/broker_facts.h"
#include "src/core/policy.h"
#include "src/core/submission.h"

namespace rung::api {

inline constexpr std::size_t kMostTasks = 1000;  // of one request

struct ReadTask {
  Submission submission;
  std::string content;  // fingerprint of everything but delay and at: tells "the same again" from "another"
};

// What is wrong with it goes to `errors`; then the answer means nothing. `who` stands in the row's origin.
// `reserved`: headers that it may not have, because they mean something to the broker.
ReadTask read_task(const Json& json, std::string prefix, const RuleBook& rules,
                   const ReservedHeaders& reserved, std::string_view who, FieldErrors& errors);

// Standard alphabet, with or without padding, no blanks. None for anything else.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace rung::api
