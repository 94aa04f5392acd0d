// Converts table rows to core's types. Call only inside Session::run() or transaction(): these functions
// throw. columns.h is the other direction.
#pragma once

#include <cppconn/resultset.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/rules/failure_rules.h"
#include "src/core/task/task.h"
#include "src/store/tasks.h"

namespace rung::mysql {

std::string text_at(const ::sql::ResultSet& row, std::uint32_t column);  // "" for NULL
std::optional<EpochMs> time_at(const ::sql::ResultSet& row, std::uint32_t column);
// The words of the columns silence_means and said_means.
inline constexpr std::string_view kSilenceSuccess = "success", kSilenceFailure = "failure";
// silence_means in this column, silence_ms in the next; or said_means and said_ms.
std::optional<Silence> silence_at(const ::sql::ResultSet& row, std::uint32_t column);

// The columns 1 .. kTaskColumns of lock_tasks and list.
inline constexpr std::uint32_t kTaskColumns = 36;
Task task_at(const ::sql::ResultSet& row);
RuleHeaders rule_headers_from(const std::string& text);          // the column rule_headers
std::vector<StoredMessage> messages_at(::sql::ResultSet& rows);  // the columns of messages
Attempt attempt_at(const ::sql::ResultSet& row);                 // the columns 1 .. 11 of history

}  // namespace rung::mysql
