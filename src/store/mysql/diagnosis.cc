#include "src/store/mysql/diagnosis.h"

#include <algorithm>
#include <cctype>

#include "sql/sql.h"
#include "src/store/mysql/store_impl.h"

namespace rung {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Matches a GRANT pattern: % and _ are wildcards, \\ escapes them.
bool like(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '%')
    return like(pattern.substr(1), name) || (!name.empty() && like(pattern, name.substr(1)));
  if (pattern[0] == '\\' && pattern.size() > 1)
    pattern.remove_prefix(1);
  else if (pattern[0] == '_')
    return !name.empty() && like(pattern.substr(1), name.substr(1));
  return !name.empty() && name[0] == pattern[0] && like(pattern.substr(1), name.substr(1));
}

// Whether "*.*" or "`rung`.*" covers the whole schema.
bool covers(std::string_view object, std::string_view schema) {
  if (object == "*.*") return true;
  if (!object.ends_with(".*") || object.size() < 4) return false;
  object.remove_suffix(2);
  if (object.front() == '`') object = object.substr(1, object.size() - 2);
  return like(object, schema);
}

}  // namespace

namespace mysql {

ServerVariables read_variables(Session& session) {
  ServerVariables found;
  auto row = session.query(render("doctor_variables"));
  while (row->next()) found[lower(text_at(*row, 1))] = text_at(*row, 2);
  const auto single = found.find("group_replication_single_primary_mode");
  if (single == found.end() || single->second == "ON") return found;
  try {
    auto members = session.query(render("doctor_group_members"));
    if (members->next()) found["group_members"] = text_at(*members, 1);
  } catch (const ::sql::SQLException&) {
    // Our user may not read that table: the value stays unknown.
  }
  return found;
}

Result<ServerVariables> MysqlStore::server_variables() {
  return session_->run_for([&] { return read_variables(*session_); });
}

}  // namespace mysql

Result<DatabaseFacts> diagnose_mysql(const StoreOptions& options, const Clock& clock) {
  auto addresses = options.addresses ? options.addresses : mysql_addresses(options, clock);
  if (!addresses) return tl::unexpected(addresses.error());
  mysql::Session session(options, *addresses, options.timeout);
  if (auto connected = session.connect(); !connected) return tl::unexpected(connected.error());
  auto facts = session.run_for([&] {
    DatabaseFacts found;
    found.has_schema = session.has_database();
    found.newest_version = sql::kSchemaVersion;
    found.variables = mysql::read_variables(session);
    auto isolation = session.query(mysql::render("doctor_isolation"));
    while (isolation->next())
      found.variables[lower(mysql::text_at(*isolation, 1))] = mysql::text_at(*isolation, 2);
    auto grants = session.query(mysql::render("doctor_grants"));
    while (grants->next()) found.grants.push_back(mysql::text_at(*grants, 1));
    if (found.has_schema) found.version = schema_version(session);
    return found;
  });
  if (!facts) return facts;
  const BootMs asked = clock.boot();
  auto now = session.run_for([&] { return session.now(); });
  if (!now) return tl::unexpected(now.error());
  facts->round_trip = clock.boot() - asked;
  facts->clock_offset = *now + facts->round_trip / 2 - clock.wall();
  return facts;
}

std::vector<DatabaseAddress> look_at_mysql_addresses(const StoreOptions& options, const Clock& clock,
                                                     Ms timeout) {
  const auto addresses = mysql_addresses(options, clock);
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
    const auto writable = session.run_for([&] { return session.takes_writes(); });
    if (!writable) one.away = writable.error();
    one.read_only = writable && !*writable;
    all.push_back(std::move(one));
  }
  for (const Error& error : found.missing) all.push_back({"a host of store.urls", options, error, false});
  return all;
}

std::set<std::string> granted(const std::vector<std::string>& grants, std::string_view schema,
                              const std::vector<std::string>& wanted, bool* roles) {
  std::set<std::string> have;
  *roles = false;
  for (const std::string& line : grants) {
    const auto on = line.find(" ON ");
    const auto to = line.find(" TO ", on == std::string::npos ? 0 : on);
    if (!line.starts_with("GRANT ") || to == std::string::npos) continue;
    if (on == std::string::npos) {
      *roles = true;
      continue;
    }
    if (!covers(std::string_view(line).substr(on + 4, to - on - 4), schema)) continue;
    const std::string list = ", " + line.substr(6, on - 6) + ",";
    for (const std::string& privilege : wanted) {
      if (list.find(", ALL PRIVILEGES,") != std::string::npos ||
          list.find(", " + privilege + ",") != std::string::npos)
        have.insert(privilege);
    }
  }
  return have;
}

}  // namespace rung
