// A connection to MySQL or MariaDB: opens it, classifies its errors, and repeats transactions; and its rows
// as core's types. Everything throws StoreError, made of the connector's exceptions. Thread: one at a time.
#pragma once

#include <cppconn/connection.h>
#include <cppconn/exception.h>
#include <cppconn/prepared_statement.h>
#include <cppconn/resultset.h>
#include <cppconn/statement.h>

#include <array>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/core/base/addresses.h"
#include "src/core/base/result.h"
#include "src/core/rules/failure_rules.h"
#include "src/core/task/task.h"
#include "src/store/mysql/mysql_store.h"
#include "src/store/mysql/render.h"
#include "src/store/task_writer.h"

namespace rung::mysql {

inline constexpr int kUsualPort = 3306;
// Server errors after which a transaction is worth a retry. kGuard: of `expect_rows` and `leases_guard`,
// which fail by a subquery of two rows.
inline constexpr int kLockWaitOver = 1205, kDeadlock = 1213, kGuard = 1242;

using ResultPtr = std::unique_ptr<::sql::ResultSet>;

// With the code of the server, or of the client library.
struct DatabaseError : StoreError {
  DatabaseError(int of, Error why) : StoreError(std::move(why)), code(of) {}
  int code;
};

// --- rows. What reads one throws what Session turns into an error.

inline std::string text_at(const ::sql::ResultSet& row, std::uint32_t column) {  // "" for NULL
  return row.getString(column).asStdString();
}
inline std::optional<EpochMs> time_at(const ::sql::ResultSet& row, std::uint32_t column) {
  const auto text = row.getString(column);
  return text.length() == 0 ? std::nullopt : std::optional(parse_datetime(text.asStdString()));
}
inline TaskId id_at(const ::sql::ResultSet& row) { return {row.getInt64(1)}; }  // in the first column

// The words of the columns silence_means and said_means.
inline constexpr std::string_view kSilenceSuccess = "success", kSilenceFailure = "failure";

// The columns of a row, one after the other. NULL is 0, "", or none. A word that this program does not know
// (a later version's) is State::unknown, and otherwise the least that can be said.
class Fields {
 public:
  explicit Fields(const ::sql::ResultSet& row) : row_(row) {}

  template <typename T>
  Fields& operator>>(T& value) {
    value = next<T>();
    return *this;
  }
  template <typename T>
  T next() {
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
    } else if constexpr (std::same_as<T, std::optional<Silence>>) {
      --column_;  // two columns: what it means, after how long
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

 private:
  const ::sql::ResultSet& row_;
  std::uint32_t column_ = 0;  // the last one read
};

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

// --- the connection

class Session {
 public:
  // `timeout` bounds connecting, each read and each write. `silence`: see open_mysql_store().
  // `addresses`: shared with all others of the process; not null.
  Session(StoreOptions options, std::shared_ptr<Addresses> addresses, Ms timeout, Ms silence = Ms{0});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Connects to the address that serves, if not connected. A missing database is no error: see
  // has_database(). Among several servers, read-only ones are skipped.
  void connect();
  bool has_database() const { return has_database_; }
  void create_database();

  // Runs `body` on one connection, in autocommit: for what a connection has, a lock or a setting. Outside of
  // it and of transaction(), each statement connects anew if it has to.
  template <typename F>
  auto hold(const F& body) -> decltype(body()) {
    connect();
    const Held held(*this);
    return body();
  }
  // Runs `body` in one transaction. After a deadlock, a lock wait timeout, a guard, a duplicate key or
  // Again, rolls back and retries a few times. If the commit fails its outcome is unknown: transient, like
  // every lost connection. `name`: of its failpoints, NAME.before_commit and NAME.after_commit.
  template <typename F>
  auto transaction(const F& body, std::string_view name = {}) -> decltype(body()) {
    if constexpr (std::is_void_v<decltype(body())>) {
      try_often(body, name);
    } else {
      std::optional<decltype(body())> out;
      try_often([&] { out = body(); }, name);
      return *std::move(out);
    }
  }

  // Returns the number of matched rows (CLIENT_FOUND_ROWS).
  std::int64_t exec(const Sql& sql);
  ResultPtr query(const Sql& sql);
  // Calls `take` with each of its rows.
  template <typename F>
  void each(const Sql& sql, F take) {
    guarded([&] {
      const auto rows = query(sql);
      while (rows->next()) take(*rows);
    });
  }
  // What `read` makes of each of its rows; of the first, if there is one.
  template <typename F>
  auto all(const Sql& sql, F read) {
    std::vector<std::invoke_result_t<F, const ::sql::ResultSet&>> out;
    each(sql, [&](const ::sql::ResultSet& row) { out.push_back(read(row)); });
    return out;
  }
  template <typename F>
  auto first(const Sql& sql, F read) {
    return guarded([&] {
      const auto rows = query(sql);
      return rows->next() ? std::optional(read(*rows)) : std::nullopt;
    });
  }
  // Its rows, as Fields reads them: of one column values, of several tuples.
  template <typename T, typename... More>
  auto rows(const Sql& sql) {
    return all(sql, [](const ::sql::ResultSet& row) {
      Fields fields(row);
      if constexpr (sizeof...(More) == 0) {
        return fields.next<T>();
      } else {
        return std::tuple<T, More...>{fields.next<T>(), fields.next<More>()...};
      }
    });
  }
  // The number, or the text, in its first row; 0 or "": there is none.
  std::int64_t number(const Sql& sql) { return value<std::int64_t>(sql); }
  template <typename T>
  T value(const Sql& sql) {
    return first(sql, [](const ::sql::ResultSet& row) { return Fields(row).next<T>(); }).value_or(T{});
  }
  // Two statements in one round trip.
  std::pair<ResultPtr, ResultPtr> query(const Sql& first, const Sql& second);
  // Only inside transaction(): queues a statement whose result is not needed. It is sent in the packet of the
  // next exec() or query(), or of the commit. The server stops at the first statement that fails, so no
  // commit follows a failure; the error is thrown where the packet is sent.
  void later(const Sql& sql);
  // Sends this query in the packet of the commit, before it. `read` gets each of its rows after the
  // commit.
  void last(Sql sql, std::function<void(const ::sql::ResultSet&)> read) {
    last_ = std::move(sql);
    read_last_ = std::move(read);
  }
  // The last later() must match so many rows, or the transaction is undone and repeated.
  void expect_rows(std::int64_t rows);
  std::unique_ptr<::sql::PreparedStatement> prepare(const Sql& sql);
  EpochMs now();
  bool takes_writes();  // false: a replica or a deposed primary

  // Largest statement or row that the server accepts, bytes; 0 before the first connection.
  std::int64_t max_packet() const { return max_packet_; }
  const StoreOptions& options() const { return options_; }
  const std::shared_ptr<Addresses>& addresses() const { return addresses_; }
  const Clock& clock() const { return addresses_->clock(); }
  const std::string& schema() const { return addresses_->first().path; }

 private:
  // While there is one, statements do not connect.
  struct Held {
    explicit Held(Session& of) : session(of) { session.is_held_ = true; }
    ~Held() { session.is_held_ = false; }
    Session& session;
  };
  // Of a row that cannot be read the error is permanent: only what asks for it fails.
  template <typename F>
  auto guarded(const F& call) -> decltype(call()) {
    try {
      return call();
    } catch (const StoreError&) {
      throw;
    } catch (const ::sql::SQLException& e) {
      throw DatabaseError(e.getErrorCode(), to_error(e.getErrorCode(), e.what()));
    } catch (const std::exception& e) {
      throw StoreError({Error::Kind::permanent, std::string("in the store: ") + e.what()});
    }
  }
  void try_often(const std::function<void()>& body, std::string_view name);

  void open(const Address& address, Ms most);  // throws
  void set_up();                               // throws
  void set_limits();                           // throws
  void expect_writable();                      // throws
  void connect_anywhere();
  // One try. `choosy`: reject a server that does not accept writes.
  Result<void> connect_to(const Address& address, Ms most, bool choosy);
  void drop();
  void commit();  // throws
  void rollback() noexcept;
  // Sends what waits and then `sql`, which has so many statements, in one packet. Returns the results of the
  // latter, null for a statement without rows; throws.
  std::vector<ResultPtr> send(const std::string& sql, int statements);
  Error to_error(int code, const std::string& text);

  const StoreOptions options_;
  const std::shared_ptr<Addresses> addresses_;
  const Ms timeout_;
  Address address_;  // of the connection, or of the last try
  std::unique_ptr<::sql::Connection> connection_;
  std::unique_ptr<::sql::Statement> statement_;
  // Statements of later() that were not sent yet.
  struct Waiting {
    std::string sql = {};
    int count = 0;
  };
  Waiting waiting_;
  Sql last_;  // of last(); empty = none
  std::function<void(const ::sql::ResultSet&)> read_last_;
  std::int64_t max_packet_ = 0;
  bool has_database_ = false;
  bool is_held_ = false;
  bool is_read_only_ = false;  // the server of the last try
  std::chrono::seconds silence_{0};
  BootMs last_used_;
};

// --- what the sources of MysqlStore share. Its methods are in the other files here, each named for its
// subject, and in reads.cc. Thread: of the session.

inline constexpr auto kAllShards = [] {
  std::array<int, kShards> all{};
  std::iota(all.begin(), all.end(), 0);
  return all;
}();

// The filter as SQL conditions, for a statement in which rung_tasks is t.
Sql conditions(const Filter& filter);

// Conditions for a column of the table or view t. same_text() distinguishes 'a' from 'a '.
template <typename T>
Sql equals(std::string_view column, const T& value) {
  return render("list.is", {{"column", Sql::identifier(column)}, {"value", value}});
}
inline Sql same_text(std::string_view column, std::string_view value) {
  return render("list.text", {{"column", Sql::identifier(column)}, {"value", value}});
}

Sql name_sql(std::string_view text);  // of a VARCHAR(255)

const Sql& task_columns();  // those that task_from() reads, of rung_tasks as t
Task task_from(Fields& row);
RuleHeaders rule_headers_from(const std::string& text);  // the column rule_headers
StoredMessage message_at(const ::sql::ResultSet& row);   // the columns of messages

// Deletes the rows with these values of a column; `ids`: a list.
inline Sql delete_by(std::string_view table, std::string_view column, const Sql& ids) {
  return render("delete_by_ids",
                {{"table", Sql::identifier(table)}, {"column", Sql::identifier(column)}, {"ids", ids}});
}

// Inside a transaction. `event.node` is ignored; `node`: of the instance, 0 = none.
void write_event(Session& session, const SystemEvent& event, int node = 0);

// Inside a transaction. Whether this batch is the maker's latest of its kind: its answer was lost, and it is
// repeated. If not, it is the latest from now on. kind: "gates", "counts".
bool is_repeated(Session& session, std::string_view kind, const std::string& maker, const std::string& id);

}  // namespace rung::mysql
