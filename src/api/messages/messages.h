// Messages that people submit or edit, as JSON: the body of POST /v1/tasks, a line of `rung submit --jsonl`.
// src/core/machine/by_hand.h makes the new tasks, in the store's transaction. Thread: pure functions; those
// with a store block.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/base/message.h"
#include "src/core/base/result.h"
#include "src/core/machine/by_hand.h"
#include "src/core/machine/machine.h"
#include "src/core/message/message.h"
#include "src/core/rules/policy.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

struct ReadTask {
  Submission submission;
  std::string content;  // fingerprint of everything but delay and at, to recognise repeated submissions
};

// Adds errors to `errors`; then the result is invalid. `who` is recorded in the row's origin. `reserved`:
// headers that it may not have, because they mean something to the broker.
ReadTask read_task(const Json& json, std::string prefix, const RuleBook& rules,
                   const ReservedHeaders& reserved, std::string_view who, FieldErrors& errors);

// Standard alphabet, with or without padding, no spaces. nullopt for anything else.
std::optional<std::string> from_base64(std::string_view text);
std::string to_base64(std::string_view bytes);

// What shall change. The properties stay.
struct Changes {
  std::optional<std::string> body = {};
  Table set = {};
  std::vector<std::string> unset = {};
};
// From body or body_base64, set_headers and unset_headers.
Changes read_changes(Fields& fields);

struct Original {
  TaskRow row;
  MessagePtr message;
  std::string origin_json;  // "" = it has none
};
// Throws a 404: no such task, or its message has been deleted.
Original read_original(MysqlStore& store, TaskId id);

// The edited message; nullptr and errors if it cannot be sent: a reserved header, too large, invalid JSON, no
// change at all. `reserved`: headers that may not change, because they mean something to the broker.
MessagePtr edited_message(const Original& original, const Changes& changes, const ReservedHeaders& reserved,
                          FieldErrors& errors);

// With an id for the new task that is most likely free; if a store says kIdTaken, make another event.
Event edit_event(const Original& original, const MessagePtr& edited, ByHand by_hand, EpochMs now);

// What an edited task was replaced by.
struct Replacement {
  std::optional<Task> same = {};  // the copy, if it has the same message
  std::string why_not = {};
};
Replacement replacement_of(MysqlStore& store, TaskId copy, const Message& edited);

// A message with this content type has JSON as its body: why it has not, with line and column; "" = it has,
// or it need not.
std::string why_not_json(const Message& message);

}  // namespace rung::api
