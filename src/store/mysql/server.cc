// The schema and the server: migrate(), check_schema(), the opening of a store, and what `rung doctor` asks.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sql/sql.h"
#include "src/core/base/failpoint.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {
namespace {

constexpr std::chrono::seconds kLockStep{2};             // wait of one GET_LOCK, well within any read timeout
constexpr std::chrono::seconds kLockWait{60};            // for another process that migrates
constexpr std::chrono::minutes kStatement{5};            // read timeout: a disk may be slow
constexpr std::string_view kVersion = "schema_version";  // in rung_settings, when all is created
constexpr int kNoTable = 1146, kNoDefiner = 1449, kDefinerMayNot = 1356;

// 0: there is no schema, or it was not finished.
int schema_version(Session& session) {
  try {
    return std::atoi(session.value<std::string>(render("setting", {{"name", kVersion}})).c_str());
  } catch (const DatabaseError& e) {
    if (e.code != kNoTable) throw;
    return 0;
  }
}

// Throws StoreError for a schema made by a later version of Rung.
bool is_current(Session& session) {
  const int version = schema_version(session);
  if (version <= sql::kSchemaVersion) return version == sql::kSchemaVersion;
  throw StoreError(
      {Error::Kind::permanent,
       "the schema has version " + std::to_string(version) + ", this program knows up to " +
           std::to_string(sql::kSchemaVersion) +
           ": a newer rung has upgraded it; use that one, or restore the backup from before the upgrade"});
}

void take_lock(Session& session) {
  const BootMs give_up = session.clock().boot() + kLockWait;
  do {
    if (session.number(render("migration_lock", {{"wait_s", kLockStep.count()}})) == 1) return;
  } while (session.clock().boot() < give_up);
  throw StoreError({Error::Kind::transient, "another process is migrating the schema"});
}

// One that was interrupted is run again from its beginning.
std::string create(Session& session) {
  if (is_current(session)) return "";  // by another process meanwhile
  constexpr std::int64_t kDay = 24 * 3'600'000;
  const EpochMs after_tomorrow{(session.now().ms / kDay + 2) * kDay};
  for (const std::string& statement : sql::schema()) {
    session.exec(fill(statement, {{"bound", IdSource::floor(after_tomorrow)}}));
    failpoint("migrate.statement");
  }
  session.exec(render("setting_update", {{"name", kVersion}, {"value", sql::kSchemaVersion}}));
  return "schema";
}

// False: the user who created the views was dropped, or has lost a right; they run with that user's rights.
bool views_work(Session& session) {
  try {
    session.query(render("views_probe"));
    return true;
  } catch (const DatabaseError& e) {
    if (e.code != kNoDefiner && e.code != kDefinerMayNot) throw;
    return false;
  }
}

// With the rights of this user.
std::string create_views(Session& session) {
  for (const std::string& statement : sql::schema()) {
    if (statement.starts_with("CREATE OR REPLACE SQL SECURITY ")) session.exec(Sql::rendered(statement));
  }
  return "views";
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

ServerVariables read_variables(Session& session) {
  ServerVariables found;
  for (const auto& [name, value] : session.rows<std::string, std::string>(render("doctor_variables")))
    found[lower(name)] = value;
  const auto single = found.find("group_replication_single_primary_mode");
  if (single == found.end() || single->second == "ON") return found;
  try {
    found["group_members"] = session.value<std::string>(render("doctor_group_members"));
  } catch (const DatabaseError&) {
    // Our user may not read that table: the value stays unknown.
  }
  return found;
}

}  // namespace

std::string MysqlStore::migrate() {
  if (!session_->has_database()) session_->create_database();
  // Nearly always there is nothing to do. Check with the normal timeouts: with the long one below, a
  // connection that dies just then would block a start for minutes.
  if (is_current(*session_)) return views_work(*session_) ? "" : create_views(*session_);
  // A connection of its own: it waits longer, and its end releases the lock whatever happens.
  Session session(session_->options(), session_->addresses(), kStatement);
  return session.hold([&] {
    take_lock(session);
    return create(session);
  });
}

void MysqlStore::check_schema() {
  const std::string advice = ": run `rung migrate`";
  if (!session_->has_database())
    throw StoreError({Error::Kind::refused, "the database '" + session_->schema() + "' is missing" + advice});
  if (!is_current(*session_)) throw StoreError({Error::Kind::permanent, "the schema is missing" + advice});
}

ServerVariables MysqlStore::server_variables() { return read_variables(*session_); }

MysqlStore::MysqlStore(std::unique_ptr<Session> session)
    : TaskWriter(session->options().causes ? session->options().causes
                                           : std::make_shared<CauseBook>(session->options().cause_rules)),
      session_(std::move(session)) {}
MysqlStore::~MysqlStore() = default;

}  // namespace rung::mysql

namespace rung {

std::shared_ptr<Addresses> mysql_addresses(const StoreOptions& options, const Clock& clock) {
  if (options.addresses) return options.addresses;
  return std::make_shared<Addresses>(options.urls, mysql::kUsualPort, Addresses::Order::listed, clock);
}

std::unique_ptr<MysqlStore> open_mysql_store(const StoreOptions& options, const Clock& clock, Ms silence) {
  auto addresses = mysql_addresses(options, clock);
  if (options.tls != "off" && options.tls != "verify")
    throw StoreError({Error::Kind::permanent, "store.tls must be off or verify"});
  auto session = std::make_unique<mysql::Session>(options, std::move(addresses), options.timeout, silence);
  session->connect();
  if (!session->has_database() && options.migrate) session->create_database();
  return std::make_unique<mysql::MysqlStore>(std::move(session));
}

DatabaseFacts diagnose_mysql(const StoreOptions& options, const Clock& clock) {
  mysql::Session session(options, mysql_addresses(options, clock), options.timeout);
  session.connect();
  DatabaseFacts facts;
  facts.has_schema = session.has_database();
  facts.newest_version = sql::kSchemaVersion;
  facts.variables = mysql::read_variables(session);
  facts.privileges =
      session.rows<std::string>(mysql::render("doctor_privileges", {{"schema", session.schema()}}));
  const auto role = session.value<std::string>(mysql::render("doctor_role"));
  facts.has_role = !role.empty() && role != "NONE";
  if (facts.has_schema) facts.version = mysql::schema_version(session);
  const BootMs asked = clock.boot();
  const EpochMs now = session.now();
  facts.round_trip = clock.boot() - asked;
  facts.clock_offset = now + facts.round_trip / 2 - clock.wall();
  return facts;
}

std::vector<DatabaseAddress> look_at_mysql_addresses(const StoreOptions& options, const Clock& clock,
                                                     Ms timeout) {
  const auto found =
      mysql_addresses(options, clock)->find(clock.boot() + timeout, {}, options.tls == "verify");
  std::vector<DatabaseAddress> all;
  for (const Address& address : found.all) {
    DatabaseAddress one{address.shown, options, std::nullopt, false};
    Url url = address.url;
    if (!address.ip.empty()) url.host = address.ip;
    one.options.addresses =
        std::make_shared<Addresses>(std::vector{url}, mysql::kUsualPort, Addresses::Order::listed, clock);
    mysql::Session session(one.options, one.options.addresses, std::min(timeout, options.timeout));
    const auto writable = result_of([&] { return session.takes_writes(); });
    if (!writable) one.away = writable.error();
    one.read_only = writable && !*writable;
    all.push_back(std::move(one));
  }
  for (const Error& error : found.missing) all.push_back({"a host of store.urls", options, error, false});
  return all;
}

std::vector<ServerRisk> server_risks(const ServerVariables& variables) {
  const auto value = [&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? std::string() : it->second;
  };
  std::vector<ServerRisk> risks;
  const auto see = [&](bool is_there, std::string name, std::string what, std::string fix) {
    if (is_there) risks.push_back({std::move(name), std::move(what), std::move(fix)});
  };
  const std::string flush = value("innodb_flush_log_at_trx_commit");
  see(!flush.empty() && flush != "1", "database.flush",
      "innodb_flush_log_at_trx_commit is " + flush +
          ": a crash of the machine loses up to a second of commits, and with them messages",
      "SET GLOBAL innodb_flush_log_at_trx_commit = 1");
  const bool has_log = value("log_bin") == "ON";
  see(has_log && value("sync_binlog") != "1", "database.binlog",
      "the binary log is on and sync_binlog is " + value("sync_binlog") +
          ": a replica or a restored backup may lack the last commits",
      "SET GLOBAL sync_binlog = 1");
  see(has_log && value("binlog_format") == "STATEMENT", "database.binlog_format",
      "the binary log has statements (binlog_format = STATEMENT), and the server refuses writes at "
      "READ COMMITTED then",
      "SET GLOBAL binlog_format = 'ROW', and set it in the server's config");
  const std::string format = value("innodb_default_row_format");
  see(!format.empty() && format != "dynamic", "database.row_format",
      "innodb_default_row_format is " + format +
          ": Rung's own tables are DYNAMIC, but one that is rebuilt by hand may no longer be",
      "SET GLOBAL innodb_default_row_format = dynamic");
  see(value("wsrep_on") == "ON", "database.wsrep",
      "a Galera cluster (wsrep_on): one node may be written to at a time; two writers are not "
      "supported, because what one node reads can be older than what another has committed; and "
      "when nodes crash together, committed writes can be lost",
      "point store.url of all sidecars at the same node, or at a proxy with one writer "
      "(docs/performance.md)");
  see(value("group_replication_single_primary_mode") == "OFF" &&
          !value("group_replication_group_name").empty() && value("group_members") != "0",
      "database.multi_primary",
      "Group Replication in multi-primary mode: one member may be written to at a time; several "
      "writers are not supported, because locks are of one member and what one reads can be older "
      "than what another has committed",
      "SELECT group_replication_switch_to_single_primary_mode(), and point store.url of all "
      "sidecars at the primary");
  const auto on = [&](const char* name) { return !value(name).empty() && value(name) != "OFF"; };
  if (on("super_read_only") || on("read_only"))
    risks.push_back({"database.read_only", "the server is read-only: a replica",
                     "point store.url at the primary", false});
  return risks;
}

}  // namespace rung
