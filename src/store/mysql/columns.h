// Converts core's types to the columns of tables, as SQL, and table rows to core's types. What takes a row
// throws what Session turns into an error. Thread: pure functions.
#pragma once

#include <cppconn/resultset.h>

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/rules/failure_rules.h"
#include "src/core/task/task.h"
#include "src/store/mysql/render.h"
#include "src/store/task_writer.h"

namespace rung::mysql {

// --- rows

std::string text_at(const ::sql::ResultSet& row, std::uint32_t column);  // "" for NULL
std::optional<EpochMs> time_at(const ::sql::ResultSet& row, std::uint32_t column);
inline TaskId id_at(const ::sql::ResultSet& row) { return {row.getInt64(1)}; }  // in the first column

// The words of the columns silence_means and said_means.
inline constexpr std::string_view kSilenceSuccess = "success", kSilenceFailure = "failure";

// The columns of a row, one after the other. NULL is 0, "", or none. A word that this program does not know
// (a later version's) is State::unknown, and otherwise the least that can be said.
class Fields {
 public:
  // `before`: the column before the first.
  explicit Fields(const ::sql::ResultSet& row, std::uint32_t before = 0) : row_(row), column_(before) {}

  template <typename T>
  Fields& operator>>(T& value) {
    value = next<T>();
    return *this;
  }
  template <typename T>
  T next();

 private:
  const ::sql::ResultSet& row_;
  std::uint32_t column_;
};

template <typename T>
T Fields::next() {
  ++column_;
  if constexpr (std::same_as<T, std::string>) {
    return text_at(row_, column_);
  } else if constexpr (std::same_as<T, EpochMs>) {
    return time_at(row_, column_).value_or(EpochMs{});
  } else if constexpr (std::same_as<T, TaskId> || std::same_as<T, Ms>) {
    return T{row_.getInt64(column_)};
  } else if constexpr (std::same_as<T, State>) {
    return from_word<State>(text_at(row_, column_)).value_or(State::unknown);
  } else if constexpr (std::same_as<T, Kind>) {
    return from_word<Kind>(text_at(row_, column_)).value_or(Kind::retry);
  } else if constexpr (std::same_as<T, Outcome>) {
    return from_word<Outcome>(text_at(row_, column_)).value_or(Outcome::pending);
  } else if constexpr (std::same_as<T, CauseState>) {
    return from_word<CauseState>(text_at(row_, column_)).value_or(CauseState::known);
  } else if constexpr (std::same_as<T, FinishedBy>) {
    return from_word<FinishedBy>(text_at(row_, column_)).value_or(FinishedBy::nobody);
  } else if constexpr (std::same_as<T, bool>) {
    return row_.getInt(column_) != 0;
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(row_.getDouble(column_));
  } else if constexpr (std::unsigned_integral<T>) {
    return static_cast<T>(row_.getUInt64(column_));
  } else if constexpr (std::integral<T>) {
    return static_cast<T>(row_.getInt64(column_));
  } else if constexpr (std::same_as<T,
                                    std::optional<Silence>>) {  // two columns: what it means, after how long
    --column_;
    const auto word = next<std::string>();
    const Ms after = next<Ms>();
    if (word.empty()) return std::nullopt;
    return Silence{word == kSilenceSuccess ? Silence::Means::success : Silence::Means::failure, after};
  } else {  // optional
    if (row_.isNull(column_)) return std::nullopt;
    --column_;
    return next<typename T::value_type>();
  }
}

// What reads the columns of a row into these members of a T, in this order.
template <typename T, typename... Member>
constexpr auto row_of(Member T::*... members) {
  return [=](const ::sql::ResultSet& row) {
    T out;
    Fields fields(row);
    (fields >> ... >> (out.*members));
    return out;
  };
}

const Sql& task_columns();  // those that task_from() reads, of rung_tasks as t
Task task_from(Fields& row);
RuleHeaders rule_headers_from(const std::string& text);  // the column rule_headers
StoredMessage message_at(const ::sql::ResultSet& row);   // the columns of messages

// --- columns

Sql rule_headers_sql(const RuleHeaders& headers);
Sql name_sql(std::string_view text);  // of a VARCHAR(255)
Sql correlation_id_sql(const Message& message);

// The columns of insert_tasks in which one of these rows differs from the table's default. Thread: values.
class NewTaskColumns {
 public:
  explicit NewTaskColumns(std::span<const NewRow* const> rows);
  Sql names() const { return Sql::of(names_); }
  void add(Rows& rows, const NewRow& row) const;

 private:
  std::vector<Sql> names_;
  std::vector<std::size_t> columns_;
  bool keys_ = false, correlated_ = false;
};

// Rows of insert_headers: the values that the message has of the headers `names`, which searches use.
void add_indexed_headers(Rows& rows, TaskId id, const Message& message,
                         const std::vector<std::string>& names);

// A set of columns: one bit for each column of the table.
using Columns = std::uint64_t;

// write_tasks, write_attempts with these rows.
Sql write_tasks(Sql rows);
void add_task(Rows& rows, const Task& task);
void add_attempt(Rows& rows, const Attempt& attempt);

// Identical changes of many rows share one UPDATE: parsing each row's text is most of a write's cost for the
// server. changed(): the columns in which `after` differs from `before`, with kAlone if the row needs its own
// statement. same_change(): whether another row changes these columns in the same way. change(): the change,
// as SQL for SET.
inline constexpr Columns kAlone = Columns{1} << 63U;
Columns changed(const Task& before, const Task& after);
bool same_change(Columns columns, const Task& after, const Task& other);
Sql change(Columns columns, const Task& after);
// The same for attempts. only_begins(): it says nothing but what its first row has.
bool only_begins(const Attempt& attempt);
bool same_word(const Attempt& a, const Attempt& b);
Sql word(const Attempt& attempt);

}  // namespace rung::mysql
