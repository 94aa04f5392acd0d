#include "src/store/mysql/session.h"

#include <cppconn/driver.h>
#include <cppconn/exception.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/core/base/secret_file.h"
#include "src/store/mysql/errors.h"
#include "src/store/mysql/render.h"

namespace rung::mysql {
namespace {

constexpr char kNextStatement = ';';
constexpr int kTries = 6;  // of a transaction, after deadlocks and the like
constexpr int kDuplicate = 1062, kNoDatabase = 1049, kDenied = 1045, kNotUnderstood = 1064;

// Registers each thread that uses the connector, as the connector requires.
::sql::Driver* driver() {
  static ::sql::Driver* const instance = get_driver_instance();
  struct ThreadGuard {
    ThreadGuard() { instance->threadInit(); }
    ~ThreadGuard() { instance->threadEnd(); }
  };
  static thread_local const ThreadGuard guard;
  (void)guard;
  return instance;
}

void pause_before(int attempt) {
  static thread_local std::minstd_rand dice{std::random_device{}()};
  std::uniform_int_distribution<int> ms(1, 5 << attempt);
  std::this_thread::sleep_for(Ms{ms(dice)});
}

std::string read_password(const StoreOptions& options, const Url& url) {
  if (options.password_file.empty()) return url.password;
  auto password = read_password_file(options.password_file);
  if (!password) {
    throw StoreError({Error::Kind::refused, "store.password_file: the password file " +
                                                options.password_file + " " + password.error().message});
  }
  return *std::move(password);
}

// As the connector has its timeouts.
int whole_seconds(Ms ms) { return std::max(1, static_cast<int>((ms.count() + 999) / 1000)); }

}  // namespace

Session::Session(StoreOptions options, std::shared_ptr<Addresses> addresses, Ms timeout, Ms silence)
    : options_(std::move(options)), addresses_(std::move(addresses)), timeout_(timeout) {
  if (silence.count() > 0)
    silence_ = std::max(std::chrono::floor<std::chrono::seconds>(silence), std::chrono::seconds{1});
}

Session::~Session() = default;

void Session::open(const Address& address, Ms most) {
  const int seconds = whole_seconds(timeout_);
  Url url = address.url;
  if (!address.ip.empty()) url.host = address.ip;
  const int port = url.port == 0 ? kUsualPort : url.port;
  ::sql::ConnectOptionsMap map;
  // tcp:// because "localhost" alone would be a Unix socket, whatever the port.
  map["hostName"] = ::sql::SQLString("tcp://" + url.host_port(kUsualPort));
  map["port"] = port;
  map["userName"] = ::sql::SQLString(url.user);
  map["password"] = ::sql::SQLString(read_password(options_, url));
  map["CLIENT_FOUND_ROWS"] = true;
  map["CLIENT_MULTI_STATEMENTS"] = true;             // for send()
  map["OPT_CONNECT_TIMEOUT"] = whole_seconds(most);  // for TCP, and for each answer until we are logged in
  map["OPT_READ_TIMEOUT"] = seconds;
  map["OPT_WRITE_TIMEOUT"] = seconds;
  // Before the connector's own questions at a login, to which the server's limits would apply.
  map["preInit"] = ::sql::SQLString(render("session_first").str());
  map["OPT_CHARSET_NAME"] = ::sql::SQLString("utf8mb4");
  if (options_.tls == "verify") {
    // Only both together make it reject plain text, another CA and another host.
    map["sslVerify"] = true;
    map["sslCA"] = ::sql::SQLString(options_.ca);
    if (!options_.cert.empty()) map["sslCert"] = ::sql::SQLString(options_.cert);
    if (!options_.key.empty()) map["sslKey"] = ::sql::SQLString(options_.key);
  }
  connection_.reset(driver()->connect(map));
  statement_.reset(connection_->createStatement());
}

// First: the server's own limits would also apply to the questions that follow.
void Session::set_limits() {
  // A lock wait ends well before the read timeout, so that the connection survives.
  const auto lock_wait = std::clamp<std::int64_t>(timeout_.count() / 2000, 1, 50);
  // A statement ends after the read timeout, so that its connection is not used again.
  const std::int64_t statement = whole_seconds(timeout_) + 1;
  exec(render("session_settings",
              {{"lock_wait_s", lock_wait}, {"statement_s", statement}, {"statement_ms", statement * 1000}}));
}

void Session::set_up() {
  if (options_.tls == "verify") {
    const auto cipher = rows<std::string, std::string>(render("session_cipher"));
    if (cipher.empty() || std::get<1>(cipher[0]).empty()) {
      throw StoreError(
          {Error::Kind::refused, "the database did not encrypt the connection, and tls: verify asks for it"});
    }
  }
  exec(render("session_names"));
  exec(render("session_isolation"));
  if (silence_.count() > 0) {
    exec(render("session_silence", {{"silence_s", silence_.count()}}));
  }
  max_packet_ = number(render("session_limits"));
  has_database_ = false;
  try {
    exec(render("use_database", {{"schema", Sql::identifier(schema())}}));
    has_database_ = true;
  } catch (const DatabaseError& e) {
    if (e.code != kNoDatabase) throw;
  }
}

void Session::connect() {
  waiting_ = {};  // of an earlier body that failed
  const BootMs now = clock().boot();
  const auto silent_since = std::exchange(last_used_, now);
  // Idle for long: the server ends such a session, or already has. Three quarters are more than the time from
  // one renewal of the leases to the next, which would otherwise log in each time.
  if (silence_.count() > 0 && now - silent_since > Ms{silence_} * 3 / 4) {
    drop();
  }
  // Only one server may be written to at a time: if one connection had to move, the others follow.
  if (connection_ != nullptr && addresses_->left(address_)) drop();
  if (connection_ == nullptr) return connect_anywhere();
  driver();  // this thread may be a new one
}

void Session::connect_anywhere() {
  // The certificate cannot be checked against an ip: with TLS a name stays one address.
  const bool names = options_.tls == "verify";
  const bool several = addresses_->urls().size() > 1;
  std::optional<Address> read_only;
  auto connected = addresses_->connect(
      timeout_, {},
      [&](const Address& address, BootMs until) -> Result<void> {
        auto done = connect_to(address, until - clock().boot(), !address.alone);
        if (!done && is_read_only_) read_only = address;
        return done;
      },
      names);
  // If it is the only server, read-only is better than nothing: it can be read.
  if (!connected && read_only && !several) connected = connect_to(*read_only, timeout_, false);
  or_throw(std::move(connected));
}

Result<void> Session::connect_to(const Address& address, Ms most, bool choosy) {
  const Held held(*this);
  address_ = address;
  is_read_only_ = false;
  try {
    open(address, most);
    set_limits();
    if (choosy) expect_writable();
    set_up();
    return {};
  } catch (const ::sql::SQLException& e) {
    drop();
    return tl::unexpected(to_error(e.getErrorCode(), e.what()));
  } catch (const StoreError& e) {
    drop();
    return tl::unexpected(e.error);
  } catch (const std::exception& e) {
    drop();
    return transient("cannot connect to the database " + address.shown + ": " + e.what());
  }
}

void Session::drop() {
  statement_.reset();
  connection_.reset();
}

bool Session::takes_writes() {
  const auto says = value<std::string>(render("session_read_only"));
  return says == "0" || says == "OFF";
}

// Detects a replica, a deposed primary, a Galera node outside its cluster.
void Session::expect_writable() {
  is_read_only_ = !takes_writes();
  if (is_read_only_)
    throw StoreError(
        {Error::Kind::transient, "database " + address_.shown + ": it is read-only: a replica?"});
  const auto says = [&](std::string_view name, std::string_view word) {
    const auto found = rows<std::string, std::string>(render(name));
    return !found.empty() && std::get<1>(found[0]) == word;
  };
  if (says("session_is_galera", "ON") && says("session_galera_ready", "OFF"))
    throw StoreError(
        {Error::Kind::transient, "database " + address_.shown + ": it is not ready (wsrep_ready is OFF)"});
}

void Session::create_database() {
  try {
    hold([&] {
      const auto name = Sql::identifier(schema());
      exec(render("create_database", {{"schema", name}}));
      exec(render("use_database", {{"schema", name}}));
    });
  } catch (StoreError& e) {
    if (e.error.kind != Error::Kind::transient)
      e.error.message.insert(0, "the database '" + schema() + "' does not exist and could not be created: ");
    throw;
  }
  has_database_ = true;
}

void Session::try_often(const std::function<void()>& body, std::string_view name) {
  const BootMs give_up = clock().boot() + timeout_;
  for (int attempt = 0;; ++attempt) {
    Error error;
    bool again = false;
    try {
      return hold([&] {
        guarded([&] {
          // As SQL: the connector's own commit() and rollback() swallow errors.
          last_ = {};
          later(render("begin"));
          body();
          failpoint(name, ".before_commit");
          commit();
          failpoint(name, ".after_commit");
        });
      });
    } catch (const DatabaseError& e) {
      error = e.error;
      // A duplicate key: another transaction wrote the row since this one looked, or this one did not look.
      if (e.code == kDuplicate)
        error = {Error::Kind::transient, "another transaction has written the same row"};
      again = e.code == kDeadlock || e.code == kLockWaitOver || e.code == kGuard || e.code == kDuplicate;
    } catch (const StoreError& e) {
      error = e.error;
    } catch (const Again& a) {
      error = {Error::Kind::transient, a.why};
      again = true;
    }
    rollback();
    if (!again || attempt + 1 >= kTries || clock().boot() >= give_up) throw StoreError(std::move(error));
    pause_before(attempt);
  }
}

void Session::commit() {
  if (last_.empty()) {
    send(render("commit").str(), 1);
  } else {
    const auto rows = query(last_, render("commit")).first;
    while (rows->next()) read_last_(*rows);
  }
}

void Session::rollback() noexcept {
  if (connection_ == nullptr) return;
  try {
    statement_->executeUpdate(render("rollback").str());  // without what waits
  } catch (...) {                                         // the server rolls back when the connection closes
    drop();
  }
}

// Classifies the error, and drops a lost connection. Passes the server's message on, unless it quotes values,
// which may come from a message.
Error Session::to_error(int code, const std::string& text) {
  std::string what = text;
  if (code == kDuplicate) {
    what = "duplicate key";
  } else if (code == kNotUnderstood) {
    what = "it rejects a statement of Rung as invalid SQL";
  } else if (code == kDenied) {
    what = "access denied for user '" + address_.url.user + "'";
  } else if (quotes_values(code)) {
    what = "a value that its column does not accept";
  }
  Error error{Error::Kind::refused, "database " + address_.shown + ": " + what + " (" + std::to_string(code) +
                                        ")" + std::string(advice(code))};
  switch (trouble_of(code, text)) {
    case Trouble::elsewhere:
      addresses_->failed(address_);
      [[fallthrough]];
    case Trouble::gone:
      drop();
      [[fallthrough]];
    case Trouble::passing:
      error.kind = Error::Kind::transient;
      break;
    case Trouble::row:
      error.kind = Error::Kind::permanent;
      break;
    case Trouble::refused:
      break;
  }
  return error;
}

std::vector<ResultPtr> Session::send(const std::string& sql, int statements) {
  if (!is_held_) connect();
  const Waiting waiting = std::exchange(waiting_, {});
  const int count = waiting.count + statements;
  std::vector<ResultPtr> results(static_cast<std::size_t>(statements));
  if (count == 0) return results;
  guarded([&] {
    bool has_rows = statement_->execute(waiting.count == 0 ? sql : waiting.sql + sql);
    for (int i = 1;; ++i) {
      if (has_rows) {
        ResultPtr rows(statement_->getResultSet());  // to be fetched, wanted or not
        if (i > waiting.count) results.at(static_cast<std::size_t>(i - waiting.count - 1)) = std::move(rows);
      }
      if (i == count) return;
      has_rows = statement_->getMoreResults();
    }
  });
  return results;
}

std::int64_t Session::exec(const Sql& sql) {
  if (!is_held_) connect();
  if (waiting_.count == 0) return guarded([&] { return statement_->executeUpdate(sql.str()); });
  // The connector (1.1.12) counts the rows of a packet's first statement only.
  const auto rows = query(sql, render("row_count")).second;
  if (!rows->next()) throw Again{"the database returned no number of rows"};
  return rows->getInt64(1);
}

ResultPtr Session::query(const Sql& sql) { return std::move(send(sql.str(), 1).at(0)); }

std::pair<ResultPtr, ResultPtr> Session::query(const Sql& first, const Sql& second) {
  auto both = send(first.str() + kNextStatement + second.str(), 2);
  return {std::move(both.at(0)), std::move(both.at(1))};
}

void Session::later(const Sql& sql) {
  // A packet holds at most half of what the server accepts; a single statement, at most a quarter.
  if (waiting_.sql.size() + sql.str().size() > static_cast<std::size_t>(max_packet_) / 2) send({}, 0);
  waiting_.sql.append(sql.str()) += kNextStatement;
  ++waiting_.count;
}

void Session::expect_rows(std::int64_t rows) { later(render("expect_rows", {{"rows", rows}})); }

std::unique_ptr<::sql::PreparedStatement> Session::prepare(const Sql& sql) {
  send({}, 0);
  return guarded(
      [&] { return std::unique_ptr<::sql::PreparedStatement>(connection_->prepareStatement(sql.str())); });
}

EpochMs Session::now() { return rows<EpochMs>(render("clock")).at(0); }

}  // namespace rung::mysql
