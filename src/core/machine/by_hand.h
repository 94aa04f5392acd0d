// What people do by hand: submissions, edited messages, and the audit rows of what they change. Thread: pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/machine/machine.h"
#include "src/core/message/message.h"
#include "src/core/rules/policy.h"
#include "src/core/task/task.h"

namespace rung {

// --- submissions (command line, HTTP) under a message-id: the same submission again is the same task,
// through either interface; other content under the same message-id is detected

// A delay. The submitter sets in `task`: message, intake_key, same_if_over_since, origin_json; and in
// task.task: queue, exchange, routing_key, tag, message_id, silence, body_bytes.
struct Submission {
  NewTask task;
  Directives directives;      // ladder, max_attempts
  std::optional<EpochMs> at;  // else `delay` from now, both by the database's clock
  Ms delay{0};

  // The task without its id, shard and node.
  NewTask begun(const RuleBook& rules, EpochMs now) const;
};

// NewTask::intake_key of such a task; "" if there is no message-id.
std::string submission_key(std::string_view message_id);

// A fingerprint of the request without its time: hex. Covers the message and the task's target, tag,
// message-id and silence.
std::string submission_content(const NewTask& task, const Directives& directives);

// NewTask::origin_json of such a task.
std::string submission_origin(std::string_view who, std::string_view content);

// --- edits (event::Edit)

// Why its message cannot be edited, and what to do instead; "" = it can.
std::string why_not_editable(const Task& task);

// EditedMessage::before and after: size and SHA-256 of the body, and the names of the headers that differ;
// never what is in them.
struct MessageDifference {
  std::string before, after;
  bool operator==(const MessageDifference&) const = default;
};
inline constexpr std::size_t kHeadersTold = 50;
MessageDifference difference(const Message& before, const Message& after);

// NewTask::origin_json of the new task, with a fingerprint of its message. `who`: ByHand::who.
std::string edit_origin(std::string_view who, TaskId original, const Message& edited,
                        std::string_view origin_json);
// The fingerprint: the same message has the same one, whatever the order of its headers.
std::string edit_content(const Message& edited);

// --- the fingerprint in the origin of a row

inline constexpr const char *kSubmitted = "submitted", *kEdited = "edited";  // its members
// "" if the row was not `made` so: one of these.
std::string content_of_origin(std::string_view origin_json, const std::string& made);

// --- audit rows: who changed a task by hand, when, what, and the fields before and after. A result that
// changes a finished task leaves one too

struct AuditRow {
  std::int64_t id = 0;
  EpochMs at;
  std::string who, what;  // what: name_of(Happening)
  TaskId task;
  std::string before, after;  // JSON objects of the changed fields, named as in retry_current
  std::string reason = {};    // ByHand::reason
  std::int64_t bulk = 0;      // ByHand::bulk
};

// None if `event` is neither by hand nor a result for a finished task.
std::optional<AuditRow> audit_of(const Event& event, const Task& before, const Task& after, EpochMs at);

}  // namespace rung
