// Tasks that are handed in by hand (command line, HTTP) under a message-id: the same again is the same task,
// whichever way it comes, and another content under the same message-id is told apart. Thread: pure
// functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/core/policy.h"
#include "src/core/task.h"

namespace rung {

// A task that only has to wait. Of `task` whoever submits sets message, intake_key, same_if_over_since,
// origin_json, and of task.task: queue, exchange, routing_key, tag, message_id, silence, body_bytes. The rest
// is begin_delay()'s.
struct Submission {
  NewTask task;
  Directives directives;      // ladder, max_attempts
  std::optional<EpochMs> at;  // else `delay` from now, both by the database's clock
  Ms delay{0};
};

// NewTask::intake_key of such a task; "" where there is no message-id.
std::string submission_key(std::string_view message_id);

// A fingerprint of what was asked for, but for when: hex. Looks at the message, and of the task at target,
// tag, message-id and silence.
std::string submission_content(const NewTask& task, const Directives& directives);

// NewTask::origin_json of such a task, and the fingerprint in it; "" where it wasn't handed in so.
std::string submission_origin(std::string_view who, std::string_view content);
std::string content_of_origin(std::string_view origin_json);

}  // namespace rung
