// POST /v1/tasks: what a task is in JSON, read into what the bridge takes.
// Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "src/bridge/submissions.h"
#include "src/core/policy.h"
#include "src/http/fields.h"

namespace rung::http {

inline constexpr std::size_t kMostTasks = 1000;  // of one request

struct ReadTask {
  bridge::Submission submission;
  std::string content;  // fingerprint of everything but delay and at: tells "the same again" from "another"
};

// What is wrong with it goes to `errors`; then the answer means nothing. `who` stands in the row's origin.
ReadTask read_task(const Json& json, std::string prefix, const RuleBook& rules, std::string_view who,
                   FieldErrors& errors);

// Standard alphabet, with or without padding, no blanks. None for anything else.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace rung::http
