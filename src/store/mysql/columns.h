// Converts core's types to the columns of tables, as SQL. rows.h is the other direction.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/rules/failure_rules.h"
#include "src/core/task/task.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"

namespace rung::mysql {

Literal rule_headers_literal(const RuleHeaders& headers);

// A column of insert_tasks.
struct NewTaskColumn {
  std::string_view name;
  bool (*differs)(const NewTask&);  // from the table's default; nullptr = it has none
  Literal (*value)(const NewTask&);
};
std::span<const NewTaskColumn> new_task_columns();

// Rows of insert_headers: the values that the message has of the headers `names`, which searches use.
void add_indexed_headers(Rows& rows, TaskId id, const Message& message,
                         const std::vector<std::string>& names);

// A set of columns: one bit for each column of the table.
using Columns = std::uint32_t;

// The columns of write_tasks, write_attempts.
void add_task(Rows& rows, const Task& task);
void add_attempt(Rows& rows, const Attempt& attempt);

// Identical changes of many rows share one UPDATE: parsing each row's text is most of a write's cost for the
// server. changed(): the columns in which `after` differs from `before`, with kAlone if the row needs its own
// statement. same_change(): whether another row changes these columns in the same way. change(): the change,
// as SQL for SET.
inline constexpr Columns kAlone = Columns{1} << 31U;
Columns changed(const Task& before, const Task& after);
bool same_change(Columns columns, const Task& after, const Task& other);
Literal change(Columns columns, const Task& after);
// The same for updates of an attempt that has begun. 0: the attempt only begins.
Columns said(const Attempt& attempt);
bool same_word(Columns columns, const Attempt& a, const Attempt& b);
Literal word(Columns columns, const Attempt& attempt);

}  // namespace rung::mysql
