// Tasks submitted by hand (command line, HTTP) under a message-id. The same submission again is the same
// task, through either interface; other content under the same message-id is detected. Thread: pure
// functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/core/rules/policy.h"
#include "src/core/task/task.h"

namespace rung {

// A delay. The submitter sets in `task`: message, intake_key, same_if_over_since, origin_json; and in
// task.task: queue, exchange, routing_key, tag, message_id, silence, body_bytes. begin_delay() sets the rest.
struct Submission {
  NewTask task;
  Directives directives;      // ladder, max_attempts
  std::optional<EpochMs> at;  // else `delay` from now, both by the database's clock
  Ms delay{0};
};

// NewTask::intake_key of such a task; "" if there is no message-id.
std::string submission_key(std::string_view message_id);

// A fingerprint of the request without its time: hex. Covers the message and the task's target, tag,
// message-id and silence.
std::string submission_content(const NewTask& task, const Directives& directives);

// NewTask::origin_json of such a task, and the fingerprint in it; "" if it was not submitted by hand.
std::string submission_origin(std::string_view who, std::string_view content);
std::string content_of_origin(std::string_view origin_json);

}  // namespace rung
