// Rows of the tables as values of core, and back. Inside Session::run() or transaction() only: these throw.
#pragma once

#include <cppconn/resultset.h>

#include <cstdint>
#include <optional>
#include <string>

#include "src/core/task.h"
#include "src/store/mysql/render.h"

namespace rung::mysql {

std::string text_at(const ::sql::ResultSet& row, std::uint32_t column);  // "" for NULL
std::optional<EpochMs> time_at(const ::sql::ResultSet& row, std::uint32_t column);

// The columns 1 .. kTaskColumns of lock_tasks and list.
inline constexpr std::uint32_t kTaskColumns = 25;
Task task_at(const ::sql::ResultSet& row);
Attempt attempt_at(const ::sql::ResultSet& row);  // the columns 1 .. 9 of history

// The columns of insert_tasks, write_tasks, write_attempts.
void add_new_task(Rows& rows, const NewTask& task);
void add_task(Rows& rows, const Task& task);
void add_attempt(Rows& rows, const Attempt& attempt);

}  // namespace rung::mysql
