// Converts core's types to the columns of tables, as SQL, and table rows to core's types. Call what takes a
// row only inside Session::run() or transaction(): it throws. Thread: pure functions.
#pragma once

#include <cppconn/resultset.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/rules/failure_rules.h"
#include "src/core/task/task.h"
#include "src/store/mysql/render.h"
#include "src/store/tasks.h"

namespace rung::mysql {

// --- rows

std::string text_at(const ::sql::ResultSet& row, std::uint32_t column);  // "" for NULL
std::optional<EpochMs> time_at(const ::sql::ResultSet& row, std::uint32_t column);
// The words of the columns silence_means and said_means.
inline constexpr std::string_view kSilenceSuccess = "success", kSilenceFailure = "failure";
// silence_means in this column, silence_ms in the next; or said_means and said_ms.
std::optional<Silence> silence_at(const ::sql::ResultSet& row, std::uint32_t column);

inline TaskId id_at(const ::sql::ResultSet& row) { return {row.getInt64(1)}; }  // in the first column

// The columns 1 .. kTaskColumns of lock_tasks and list.
inline constexpr std::uint32_t kTaskColumns = 36;
Task task_at(const ::sql::ResultSet& row);
RuleHeaders rule_headers_from(const std::string& text);          // the column rule_headers
std::vector<StoredMessage> messages_at(::sql::ResultSet& rows);  // the columns of messages
Attempt attempt_at(const ::sql::ResultSet& row);                 // the columns 1 .. 11 of history

// --- columns

Literal rule_headers_literal(const RuleHeaders& headers);
Literal name_literal(std::string_view text);  // of a VARCHAR(255)
Literal correlation_id_literal(const Message& message);

// The columns of insert_tasks in which one of the tasks differs from the table's default. All but cause_id.
class NewTaskColumns {
 public:
  NewTaskColumns(std::span<const NewTask> tasks, std::span<const std::size_t> some);
  const std::string& names() const { return names_; }
  void add(Rows& rows, const NewTask& n) const;  // a new row

 private:
  std::string names_;
  std::vector<std::size_t> columns_;
  bool keys_ = false, correlated_ = false;
};

// Rows of insert_headers: the values that the message has of the headers `names`, which searches use.
void add_indexed_headers(Rows& rows, TaskId id, const Message& message,
                         const std::vector<std::string>& names);

// A set of columns: one bit for each column of the table.
using Columns = std::uint64_t;

// The columns of write_tasks, write_attempts.
void add_task(Rows& rows, const Task& task);
void add_attempt(Rows& rows, const Attempt& attempt);

// Identical changes of many rows share one UPDATE: parsing each row's text is most of a write's cost for the
// server. changed(): the columns in which `after` differs from `before`, with kAlone if the row needs its own
// statement. same_change(): whether another row changes these columns in the same way. change(): the change,
// as SQL for SET.
inline constexpr Columns kAlone = Columns{1} << 63U;
Columns changed(const Task& before, const Task& after);
bool same_change(Columns columns, const Task& after, const Task& other);
Literal change(Columns columns, const Task& after);
// The same for updates of an attempt that has begun. 0: the attempt only begins.
Columns said(const Attempt& attempt);
bool same_word(Columns columns, const Attempt& a, const Attempt& b);
Literal word(Columns columns, const Attempt& attempt);

}  // namespace rung::mysql
