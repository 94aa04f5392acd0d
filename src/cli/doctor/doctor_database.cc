// Checks of the database: login, version, grants, durability, clock, schema.
#include <algorithm>
#include <cstdlib>

#include "levels/duration.h"
#include "src/cli/doctor/doctor.h"
#include "src/core/base/url.h"
#include "src/store/mysql/diagnosis.h"

namespace rung::cli {
namespace {

constexpr Ms kMostOffset{500};
constexpr std::int64_t kLeastPacket = 16LL * 1024 * 1024;  // a message body is sent in one statement

struct Database {
  const Config& config;
  const DatabaseFacts& facts;
  Url url;

  std::string variable(const char* name) const {
    const auto it = facts.variables.find(name);
    return it == facts.variables.end() ? "" : it->second;
  }
  std::string grant(const std::string& privileges) const {
    return "GRANT " + privileges + " ON `" + url.path + "`.* TO '" + url.user +
           "'@'HOST' (docs/permissions.md)";
  }
};

Findings not_connected(const Url& url, const Error& error) {
  Findings all;
  if (error.kind == Error::Kind::transient) {
    all.push_back(unreachable("database.login",
                              "cannot connect to " + url.host_port(3306) + ": " + error.message,
                              "start the database, or correct host and port of store.url"));
  } else if (error.message.find("to database") != std::string::npos) {
    all.push_back(wrong("database.grants", error.message,
                        "GRANT SELECT, INSERT, UPDATE, DELETE, ... ON `" + url.path + "`.* TO '" + url.user +
                            "'@'HOST' (docs/permissions.md)"));
  } else if (error.message.find("(3159)") != std::string::npos) {
    all.push_back(wrong("database.login", "the database rejected user '" + url.user + "': " + error.message,
                        "set store.tls: verify in the config (docs/security.md)"));
  } else {
    all.push_back(wrong("database.login", "the database rejected user '" + url.user + "': " + error.message,
                        "correct the password in store.url or store.password_file, or run: ALTER USER '" +
                            url.user + "'@'HOST' IDENTIFIED BY 'PASSWORD'"));
  }
  for (const char* name : {"database.schema", "database.settings", "database.clock"})
    all.push_back(skipped(name, "not connected"));
  return all;
}

void check_schema(const Database& db, Findings& all) {
  const DatabaseFacts& facts = db.facts;
  const bool migrates = db.config.store.migrate;
  const std::string migrate = migrates ? "rung run creates it at start" : "rung migrate";
  const auto missing = [&](const std::string& what) {
    all.push_back(migrates ? warning("database.schema", what, migrate)
                           : wrong("database.schema", what, migrate));
  };
  if (!facts.has_schema) {
    missing("no such database: '" + db.url.path + "'");
  } else if (facts.version == 0) {
    missing("Rung's tables do not exist yet");
  } else if (facts.version < facts.newest_version) {
    missing("the schema has version " + std::to_string(facts.version) + ", this program needs version " +
            std::to_string(facts.newest_version));
  } else if (facts.version > facts.newest_version) {
    all.push_back(wrong("database.schema",
                        "the schema has version " + std::to_string(facts.version) +
                            ", this program supports up to version " + std::to_string(facts.newest_version),
                        "use the newer rung that created it"));
  } else {
    all.push_back(good("database.schema", "version " + std::to_string(facts.version)));
  }
}

void check_grants(const Database& db, Findings& all) {
  std::vector<std::string> wanted = {"SELECT",      "INSERT", "UPDATE", "DELETE",
                                     "LOCK TABLES", "CREATE", "ALTER",  "DROP"};
  if (db.config.store.migrate) wanted.insert(wanted.end(), {"INDEX", "CREATE VIEW"});
  bool roles = false;
  const auto have = granted(db.facts.grants, db.url.path, wanted, &roles);
  std::string missing;
  for (const std::string& privilege : wanted) {
    if (!have.contains(privilege)) missing += (missing.empty() ? "" : ", ") + privilege;
  }
  if (missing.empty()) {
    all.push_back(good("database.grants", "user '" + db.url.user + "' has all required privileges"));
  } else if (roles) {
    all.push_back(warning("database.grants", "not granted directly, perhaps through a role: " + missing,
                          db.grant(missing)));
  } else {
    all.push_back(
        wrong("database.grants", "user '" + db.url.user + "' lacks: " + missing, db.grant(missing)));
  }
}

void check_settings(const Database& db, Findings& all) {
  if (db.variable("innodb_flush_log_at_trx_commit") == "1")
    all.push_back(good("database.flush", "commits are flushed to disk (innodb_flush_log_at_trx_commit = 1)"));
  for (const ServerRisk& risk : server_risks(db.facts.variables))
    all.push_back(risk.serves ? warning(risk.name, risk.what, risk.fix)
                              : wrong(risk.name, risk.what, risk.fix));
  const std::string isolation = db.variable(
      db.facts.variables.contains("transaction_isolation") ? "transaction_isolation" : "tx_isolation");
  all.push_back(isolation == "READ-COMMITTED"
                    ? good("database.isolation", "Rung's sessions run at READ COMMITTED")
                    : wrong("database.isolation",
                            "the session's isolation is " + isolation + ", but Rung requested READ COMMITTED",
                            "look for a proxy between Rung and the database that changes it"));
  const std::int64_t packet = std::atoll(db.variable("max_allowed_packet").c_str());
  const std::string mb = std::to_string(packet / (1024 * 1024)) + " MB";
  all.push_back(packet >= kLeastPacket
                    ? good("database.packet", "max_allowed_packet is " + mb)
                    : warning("database.packet",
                              "max_allowed_packet is " + mb + ": larger messages go to the parked queue",
                              "SET GLOBAL max_allowed_packet = 67108864, and set it in the server's config"));
}

void check_clock(const Database& db, Findings& all) {
  const Ms offset = db.facts.clock_offset < Ms{0} ? -db.facts.clock_offset : db.facts.clock_offset;
  const std::string how = db.facts.clock_offset < Ms{0} ? "behind" : "ahead of";
  const std::string what = "the database's clock is " + levels::format_duration(std::max(offset, Ms{1})) +
                           " " + how + " this machine's (within " +
                           levels::format_duration(std::max(db.facts.round_trip, Ms{1})) + ")";
  all.push_back(offset <= kMostOffset + db.facts.round_trip
                    ? good("database.clock", what)
                    : warning("database.clock", what + "; due times follow the database's clock",
                              "run chrony or ntpd on both"));
}

// If there are several addresses: whether each is reachable, and which one is in use.
Findings check_addresses(const std::vector<DatabaseAddress>& addresses, const DatabaseAddress* serving) {
  Findings all;
  std::string writers;
  for (const DatabaseAddress& one : addresses) {
    const bool writes = !one.away && !one.read_only;
    if (writes) writers += (writers.empty() ? "" : ", ") + one.shown;
    if (one.away) {
      all.push_back(warning("database.address", one.shown + " is unavailable: " + one.away->message,
                            "start the database there, or correct store.urls"));
    } else if (one.read_only) {
      all.push_back(good("database.address", one.shown + " is reachable but read-only, so it is skipped"));
    } else {
      all.push_back(good("database.address", one.shown + (&one == serving ? " accepts writes and is in use"
                                                                          : " accepts writes")));
    }
  }
  if (writers.find(',') != std::string::npos) {
    all.push_back(
        warning("database.writers",
                "several addresses accept writes: " + writers +
                    "; sidecars connected to different ones may not see each other's leases in time",
                "SET GLOBAL read_only = 1 on all but one; each sidecar uses the first address of store.urls "
                "that it reaches"));
  } else if (serving == nullptr) {
    all.push_back(wrong("database.read_only", "no address of store.urls accepts writes",
                        "promote one, or add the primary to store.urls"));
  }
  return all;
}

// All other checks, on the address in use.
Findings check_one(const Config& config, const Clock& clock, const StoreOptions& options, const Url& url,
                   const std::string& at) {
  const auto facts = diagnose_mysql(options, clock);
  if (!facts) return not_connected(url, facts.error());
  const Database db{config, *facts, url};
  Findings all = {good("database.login", "user '" + url.user + "' at " + at + ", " + db.variable("version") +
                                             " " + db.variable("version_comment"))};
  check_schema(db, all);
  check_grants(db, all);
  check_settings(db, all);
  check_clock(db, all);
  return all;
}

}  // namespace

Findings check_database(const Config& config, const Clock& clock) {
  const auto url = parse_url(config.store.url);
  if (!url) return {wrong("database.login", "store.url: " + url.error().message, "correct store.url")};
  if (config.store.other_urls.empty())
    return check_one(config, clock, config.store, *url, url->host_port(3306));
  const auto addresses = look_at_mysql_addresses(config.store, clock, Addresses::kSlice);
  const auto serving =
      std::ranges::find_if(addresses, [](const DatabaseAddress& one) { return !one.away && !one.read_only; });
  const bool any = serving != addresses.end();
  Findings all = check_addresses(addresses, any ? &*serving : nullptr);
  const Findings rest =
      any ? check_one(config, clock, serving->options, serving->options.addresses->first(), serving->shown)
          : not_connected(*url, {Error::Kind::transient, "no address is available"});
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

}  // namespace rung::cli
