#include "src/store/mysql/session.h"

#include <cppconn/driver.h>
#include <cppconn/exception.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <random>
#include <thread>
#include <utility>

#include "src/core/failpoint.h"
#include "src/store/mysql/render.h"

namespace rung::mysql {
namespace {

constexpr int kTries = 6;  // of a transaction, after deadlocks and the like
constexpr int kDuplicate = 1062, kNoDatabase = 1049, kDenied = 1045;

// Errors after which the connection is of no use.
constexpr std::array kGone = {1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2002,
                              2003, 2005, 2006, 2013, 2014, 2027, 2055, 3169, 4031};
// Errors of the moment, on a connection that lives: too many connections, out of memory, disk full, table
// full, killed query, read-only (a failover), cluster not ready, time-outs.
constexpr std::array kPassing = {1021, 1023, 1037, 1040, 1041, 1047, 1114, 1129, 1135, 1180, 1203,
                                 1205, 1206, 1213, 1226, 1290, 1317, 1637, 1836, 1969, 3024, 3572};

template <std::size_t N>
bool is_one_of(const std::array<int, N>& codes, int code) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

// The connector wants to know of each thread that uses it.
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
  std::ifstream file(options.password_file);
  std::string line;
  if (!file || !std::getline(file, line)) {
    throw Abort{{Error::Kind::permanent, "cannot read the password file " + options.password_file}};
  }
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

}  // namespace

Session::Session(StoreOptions options, Url url, Ms timeout, Ms silence)
    : options_(std::move(options)), url_(std::move(url)), timeout_(timeout) {
  if (silence.count() > 0)
    silence_ = std::max(std::chrono::floor<std::chrono::seconds>(silence), std::chrono::seconds{1});
}

Session::~Session() = default;

void Session::open() {
  const int seconds = std::max(1, static_cast<int>((timeout_.count() + 999) / 1000));
  const int port = url_.port == 0 ? 3306 : url_.port;
  ::sql::ConnectOptionsMap map;
  // tcp:// because "localhost" alone would be a Unix socket, whatever the port.
  map["hostName"] = ::sql::SQLString("tcp://" + url_.host_port(3306));
  map["port"] = port;
  map["userName"] = ::sql::SQLString(url_.user);
  map["password"] = ::sql::SQLString(read_password(options_, url_));
  map["CLIENT_FOUND_ROWS"] = true;
  map["OPT_CONNECT_TIMEOUT"] = seconds;
  map["OPT_READ_TIMEOUT"] = seconds;
  map["OPT_WRITE_TIMEOUT"] = seconds;
  map["OPT_CHARSET_NAME"] = ::sql::SQLString("utf8mb4");
  if (options_.tls == "verify") {
    // Only these two together make it refuse plain text, another CA and another host.
    map["sslVerify"] = true;
    map["sslCA"] = ::sql::SQLString(options_.ca);
    if (!options_.cert.empty()) map["sslCert"] = ::sql::SQLString(options_.cert);
    if (!options_.key.empty()) map["sslKey"] = ::sql::SQLString(options_.key);
  }
  connection_.reset(driver()->connect(map));
  statement_.reset(connection_->createStatement());
  set_up();
}

void Session::set_up() {
  if (options_.tls == "verify") {
    auto row = query(render("session_cipher"));
    if (!row->next() || row->getString(2).length() == 0) {
      throw Abort{{Error::Kind::permanent,
                   "the database did not encrypt the connection, and tls: verify asks for it"}};
    }
  }
  // A lock is given up well before the read would time out, so that the connection survives.
  const auto lock_wait = std::clamp<std::int64_t>(timeout_.count() / 2000, 1, 50);
  exec(render("session_names"));
  exec(render("session_settings", {{"lock_wait_s", Literal::number(lock_wait)}}));
  exec(render("session_isolation"));
  if (silence_.count() > 0) {
    exec(render("session_silence", {{"silence_s", Literal::number(silence_.count())}}));
  }
  auto limits = query(render("session_limits"));
  if (limits->next()) max_packet_ = limits->getInt64(1);
  has_database_ = false;
  try {
    exec(render("use_database", {{"schema", Literal::identifier(url_.path)}}));
    has_database_ = true;
  } catch (const ::sql::SQLException& e) {
    if (e.getErrorCode() != kNoDatabase) throw;
  }
}

Result<void> Session::ensure() {
  const auto now = std::chrono::steady_clock::now();
  const auto silent_since = std::exchange(last_used_, now);
  if (silence_.count() > 0 && now - silent_since > Ms{silence_} / 2) {
    // There was nothing to do: the server ends such a session, or has already.
    statement_.reset();
    connection_.reset();
  }
  if (connection_ != nullptr) {
    driver();  // this thread may be a new one
    return {};
  }
  try {
    open();
    return {};
  } catch (const ::sql::SQLException& e) {
    statement_.reset();
    connection_.reset();
    return tl::unexpected(to_error(e.getErrorCode(), e.what()));
  } catch (const Abort& abort) {
    statement_.reset();
    connection_.reset();
    return tl::unexpected(abort.error);
  } catch (const std::exception& e) {
    connection_.reset();
    return transient(std::string("cannot connect to the database: ") + e.what());
  }
}

Result<void> Session::connect() { return ensure(); }

Result<void> Session::create_database() {
  auto done = run([&] {
    const auto schema = Literal::identifier(url_.path);
    exec(render("create_database", {{"schema", schema}}));
    exec(render("use_database", {{"schema", schema}}));
  });
  if (done) {
    has_database_ = true;
    return {};
  }
  if (done.error().is_transient()) return done;
  return permanent("the database '" + url_.path +
                   "' does not exist and could not be created: " + done.error().message);
}

Result<void> Session::run(const std::function<void()>& body) {
  if (auto ready = ensure(); !ready) return ready;
  try {
    body();
    return {};
  } catch (const Abort& abort) {
    return tl::unexpected(abort.error);
  } catch (const ::sql::SQLException& e) {
    return tl::unexpected(to_error(e.getErrorCode(), e.what()));
  } catch (const std::exception& e) {
    return permanent(std::string("in the store: ") + e.what());
  }
}

Result<void> Session::transaction(const std::function<void()>& body, std::string_view name) {
  const auto give_up = std::chrono::steady_clock::now() + timeout_;
  for (int attempt = 0;; ++attempt) {
    if (auto ready = ensure(); !ready) return ready;
    Error error;
    bool again = false;
    try {
      // As SQL: the connector's own commit() and rollback() swallow errors.
      exec(render("begin"));
      body();
      failpoint(name, ".before_commit");
      exec(render("commit"));
      failpoint(name, ".after_commit");
      return {};
    } catch (const Abort& abort) {
      error = abort.error;
    } catch (const Again& a) {
      error = {Error::Kind::transient, a.why};
      again = true;
    } catch (const ::sql::SQLException& e) {
      error = to_error(e.getErrorCode(), e.what());
      again = e.getErrorCode() == kDeadlock || e.getErrorCode() == kLockWaitOver;
    } catch (const std::exception& e) {
      error = {Error::Kind::permanent, std::string("in the store: ") + e.what()};
    }
    rollback();
    if (!again || attempt + 1 >= kTries || std::chrono::steady_clock::now() >= give_up) {
      return tl::unexpected(std::move(error));
    }
    pause_before(attempt);
  }
}

void Session::rollback() noexcept {
  if (connection_ == nullptr) return;
  try {
    exec(render("rollback"));
  } catch (...) {  // then the server does it, as the connection ends
    statement_.reset();
    connection_.reset();
  }
}

// Tells transient from permanent, and drops a connection that is gone. The server's words are handed on, but
// for those that quote values: they may be a message's.
Error Session::to_error(int code, const std::string& text) {
  const std::string where = "database " + url_.host_port(3306) + ": ";
  const std::string number = " (" + std::to_string(code) + ")";
  if (is_one_of(kGone, code)) {
    statement_.reset();
    connection_.reset();
    return {Error::Kind::transient, where + text + number};
  }
  if (is_one_of(kPassing, code)) return {Error::Kind::transient, where + text + number};
  if (code == kDuplicate) return {Error::Kind::permanent, where + "duplicate key" + number};
  if (code == 1064)
    return {Error::Kind::permanent, where + "it does not understand a statement of ours" + number};
  if (code == 1366 || code == 1292 || code == 1300 || code == 1406) {
    return {Error::Kind::permanent, where + "a value that its column does not take" + number};
  }
  if (code == kDenied) {
    return {Error::Kind::permanent, where + "access denied for user '" + url_.user + "'" + number};
  }
  return {Error::Kind::permanent, where + text + number};
}

std::int64_t Session::exec(const std::string& sql) { return statement_->executeUpdate(sql); }

std::unique_ptr<::sql::ResultSet> Session::query(const std::string& sql) {
  return std::unique_ptr<::sql::ResultSet>(statement_->executeQuery(sql));
}

std::unique_ptr<::sql::PreparedStatement> Session::prepare(const std::string& sql) {
  return std::unique_ptr<::sql::PreparedStatement>(connection_->prepareStatement(sql));
}

EpochMs Session::now() {
  auto row = query(render("now"));
  if (!row->next()) throw Again{"the database told no time"};
  return parse_datetime(row->getString(1).asStdString());
}

}  // namespace rung::mysql
