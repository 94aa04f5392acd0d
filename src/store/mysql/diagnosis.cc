// What `rung doctor` asks.
#include <algorithm>
#include <cctype>

#include "sql/sql.h"
#include "src/store/mysql/session.h"

namespace rung {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

namespace mysql {

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

ServerVariables MysqlStore::server_variables() { return read_variables(*session_); }

}  // namespace mysql

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
  if (facts.has_schema) facts.version = schema_version(session);
  const BootMs asked = clock.boot();
  const EpochMs now = session.now();
  facts.round_trip = clock.boot() - asked;
  facts.clock_offset = now + facts.round_trip / 2 - clock.wall();
  return facts;
}

std::vector<DatabaseAddress> look_at_mysql_addresses(const StoreOptions& options, const Clock& clock,
                                                     Ms timeout) {
  const auto addresses = result_of([&] { return mysql_addresses(options, clock); });
  if (!addresses) return {{"store.urls", options, addresses.error(), false}};
  const auto found = (*addresses)->find(clock.boot() + timeout, {}, options.tls == "verify");
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
  if (const std::string flush = value("innodb_flush_log_at_trx_commit"); !flush.empty() && flush != "1") {
    risks.push_back({"database.flush",
                     "innodb_flush_log_at_trx_commit is " + flush +
                         ": a crash of the machine loses up to a second of commits, and with them messages",
                     "SET GLOBAL innodb_flush_log_at_trx_commit = 1"});
  }
  if (value("log_bin") == "ON" && value("sync_binlog") != "1") {
    risks.push_back({"database.binlog",
                     "the binary log is on and sync_binlog is " + value("sync_binlog") +
                         ": a replica or a restored backup may lack the last commits",
                     "SET GLOBAL sync_binlog = 1"});
  }
  if (value("log_bin") == "ON" && value("binlog_format") == "STATEMENT") {
    risks.push_back(
        {"database.binlog_format",
         "the binary log has statements (binlog_format = STATEMENT), and the server refuses writes at "
         "READ COMMITTED then",
         "SET GLOBAL binlog_format = 'ROW', and set it in the server's config"});
  }
  if (const std::string format = value("innodb_default_row_format"); !format.empty() && format != "dynamic") {
    risks.push_back({"database.row_format",
                     "innodb_default_row_format is " + format +
                         ": Rung's own tables are DYNAMIC, but one that is rebuilt by hand may no longer be",
                     "SET GLOBAL innodb_default_row_format = dynamic"});
  }
  if (value("wsrep_on") == "ON") {
    risks.push_back(
        {"database.wsrep",
         "a Galera cluster (wsrep_on): one node may be written to at a time; two writers are not "
         "supported, because what one node reads can be older than what another has committed; and "
         "when nodes crash together, committed writes can be lost",
         "point store.url of all sidecars at the same node, or at a proxy with one writer "
         "(docs/performance.md)"});
  }
  if (value("group_replication_single_primary_mode") == "OFF" &&
      !value("group_replication_group_name").empty() && value("group_members") != "0") {
    risks.push_back(
        {"database.multi_primary",
         "Group Replication in multi-primary mode: one member may be written to at a time; several "
         "writers are not supported, because locks are of one member and what one reads can be older "
         "than what another has committed",
         "SELECT group_replication_switch_to_single_primary_mode(), and point store.url of all "
         "sidecars at the primary"});
  }
  const auto on = [&](const char* name) { return !value(name).empty() && value(name) != "OFF"; };
  if (on("super_read_only") || on("read_only")) {
    risks.push_back({"database.read_only", "the server is read-only: a replica",
                     "point store.url at the primary", false});
  }
  return risks;
}

}  // namespace rung
