// Edit and retry: a parked task is replaced by a new one with an edited message, which is sent as a redrive
// would send it. The parked one is discarded. A part of the state machine: only machine.cc calls edit().
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/machine/machine.h"
#include "src/core/message/message.h"
#include "src/core/rules/policy.h"
#include "src/core/task/task.h"

namespace rung {

// Why its message cannot be edited, and what to do instead; "" = it can.
std::string why_not_editable(const Task& task);
// Why a task that has been replaced is not sent. REQUIRES: Task::replaced_by.
std::string replaced_text(const Task& task);

Decision edit(const Task& task, const EditedMessage& edited, const RuleBook& rules, const Circumstances& at);

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
// That of a row's origin; "" if the row was not made by an edit.
std::string edit_content_of_origin(std::string_view origin_json);

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
