// Edit and retry: reads what shall change, makes the edited message, checks it, and says what became of it.
// src/core/machine/by_hand.h makes the new task, in the store's transaction. Thread: pure functions; those
// with a store block.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/json/fields.h"
#include "src/core/machine/machine.h"
#include "src/core/message/message.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

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
// Errors: not_found (no such task, or its message has been deleted).
Result<Original> read_original(MysqlStore& store, TaskId id);

// {"retry_id", "version", "properties", "headers", "body_base64"}
Json to_json(const Original& original);

// The edited message; nullptr and errors if it cannot be sent: a reserved header, too large, invalid JSON, no
// change at all. `reserved`: headers that may not change, because they mean something to the broker.
MessagePtr edited_message(const Original& original, const Changes& changes, const ReservedHeaders& reserved,
                          FieldErrors& errors);

// With an id for the new task that is most likely free; if a store says kIdTaken, make another event.
Event edit_event(const Original& original, const MessagePtr& edited, ByHand by_hand, EpochMs now);

struct Edited {
  enum class How { created, same, refused, changed_since, too_large, no_such_task };
  How how = How::refused;
  Task task;           // created, same: the new one; else the original
  std::string reason;  // "" if created or same
};
// What became of an edit_event(). An original that has been replaced by the same message already: `same`.
Result<Edited> outcome_of_edit(MysqlStore& store, const Decision& decision, const Message& edited);

// "line 2, column 5": where the text is not JSON; "" = it is.
std::string where_not_json(std::string_view text);
// A message with this content type has JSON as its body: why it has not, with line and column; "" = it has,
// or it need not.
std::string why_not_json(const Message& message);

}  // namespace rung::api
