// Checks of the database (login, version, grants, durability, clock, schema), of whether it and the broker
// belong together (docs/operations.md), of the collector of traces and of the identity provider.
#include <algorithm>
#include <cstdlib>

#include "levels/duration.h"
#include "src/cli/doctor/doctor.h"
#include "src/core/base/url.h"
#include "src/net/http_client.h"
#include "src/oidc/provider.h"
#include "src/otel/span.h"
#include "src/sidecar/parts.h"
#include "src/store/mysql/mysql_store.h"
#include "src/store/ownership.h"

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

void not_connected(const Url& url, const Error& error, Findings& out) {
  const std::string name = "database.login";
  const std::string rejected = "the database rejected user '" + url.user + "': " + error.message;
  if (error.kind == Error::Kind::transient) {
    out.add(name, Findings::Status::wrong, "cannot connect to " + url.host_port(3306) + ": " + error.message,
            "start the database, or correct host and port of store.url", true);
  } else if (error.message.find("to database") != std::string::npos) {
    out.wrong("database.grants", error.message,
              "GRANT SELECT, INSERT, UPDATE, DELETE, ... ON `" + url.path + "`.* TO '" + url.user +
                  "'@'HOST' (docs/permissions.md)");
  } else if (error.message.find("(3159)") != std::string::npos) {
    out.wrong(name, rejected, "set store.tls: verify in the config (docs/security.md)");
  } else {
    out.wrong(name, rejected,
              "correct the password in store.url or store.password_file, or run: ALTER USER '" + url.user +
                  "'@'HOST' IDENTIFIED BY 'PASSWORD'");
  }
  for (const char* other : {"database.schema", "database.settings", "database.clock"})
    out.skip(other, "not connected");
}

void check_schema(const Database& db, Findings& out) {
  const DatabaseFacts& facts = db.facts;
  const std::string name = "database.schema", has = "the schema has version " + std::to_string(facts.version);
  const std::string newest = std::to_string(facts.newest_version);
  if (facts.version == facts.newest_version) return out.ok(name, "version " + newest);
  if (facts.version > facts.newest_version)
    return out.wrong(name, has + ", this program supports up to version " + newest,
                     "use the newer rung that created it");
  const std::string what = !facts.has_schema    ? "no such database: '" + db.url.path + "'"
                           : facts.version == 0 ? "Rung's tables do not exist yet"
                                                : has + ", this program needs version " + newest;
  if (db.config.store.migrate) return out.warn(name, what, "rung run creates it at start");
  out.wrong(name, what, "rung migrate");
}

void check_grants(const Database& db, Findings& out) {
  const std::string name = "database.grants";
  std::vector<std::string> wanted = {"SELECT",      "INSERT", "UPDATE", "DELETE",
                                     "LOCK TABLES", "CREATE", "ALTER",  "DROP"};
  if (db.config.store.migrate) wanted.insert(wanted.end(), {"INDEX", "CREATE VIEW"});
  std::string missing;
  for (const std::string& privilege : wanted) {
    if (std::ranges::find(db.facts.privileges, privilege) == db.facts.privileges.end())
      missing += (missing.empty() ? "" : ", ") + privilege;
  }
  if (missing.empty()) return out.ok(name, "user '" + db.url.user + "' has all required privileges");
  if (db.facts.has_role)
    return out.warn(name, "not granted directly, perhaps through a role: " + missing, db.grant(missing));
  out.wrong(name, "user '" + db.url.user + "' lacks: " + missing, db.grant(missing));
}

void check_settings(const Database& db, Findings& out) {
  if (db.variable("innodb_flush_log_at_trx_commit") == "1")
    out.ok("database.flush", "commits are flushed to disk (innodb_flush_log_at_trx_commit = 1)");
  for (const ServerRisk& risk : server_risks(db.facts.variables)) {
    out.add(risk.name, risk.serves ? Findings::Status::warn : Findings::Status::wrong, risk.what, risk.fix);
  }
  const std::int64_t packet = std::atoll(db.variable("max_allowed_packet").c_str());
  const std::string is = "max_allowed_packet is " + std::to_string(packet / (1024 * 1024)) + " MB";
  if (packet >= kLeastPacket) return out.ok("database.packet", is);
  out.warn("database.packet", is + ": larger messages go to the parked queue",
           "SET GLOBAL max_allowed_packet = 67108864, and set it in the server's config");
}

void check_clock(const Database& db, Findings& out) {
  const Ms offset = std::chrono::abs(db.facts.clock_offset);
  const std::string what = "the database's clock is " + levels::format_duration(std::max(offset, Ms{1})) +
                           (db.facts.clock_offset < Ms{0} ? " behind" : " ahead of") +
                           " this machine's (within " +
                           levels::format_duration(std::max(db.facts.round_trip, Ms{1})) + ")";
  if (offset <= kMostOffset + db.facts.round_trip) return out.ok("database.clock", what);
  out.warn("database.clock", what + "; due times follow the database's clock", "run chrony or ntpd on both");
}

// If there are several addresses: whether each is reachable, and which one is in use.
void check_addresses(const std::vector<DatabaseAddress>& addresses, const DatabaseAddress* serving,
                     Findings& out) {
  const std::string name = "database.address";
  std::string writers;
  for (const DatabaseAddress& one : addresses) {
    if (one.away) {
      out.warn(name, one.shown + " is unavailable: " + one.away->message,
               "start the database there, or correct store.urls");
    } else if (one.read_only) {
      out.ok(name, one.shown + " is reachable but read-only, so it is skipped");
    } else {
      out.ok(name, one.shown + (&one == serving ? " accepts writes and is in use" : " accepts writes"));
      writers += (writers.empty() ? "" : ", ") + one.shown;
    }
  }
  if (writers.find(',') != std::string::npos) {
    out.warn("database.writers",
             "several addresses accept writes: " + writers +
                 "; sidecars connected to different ones may not see each other's leases in time",
             "SET GLOBAL read_only = 1 on all but one; each sidecar uses the first address of store.urls "
             "that it reaches");
  } else if (serving == nullptr) {
    out.wrong("database.read_only", "no address of store.urls accepts writes",
              "promote one, or add the primary to store.urls");
  }
}

// All other checks, on the address in use.
void check_one(const Config& config, const Clock& clock, const StoreOptions& options, const Url& url,
               const std::string& at, Findings& out) {
  const auto facts = diagnose_mysql(options, clock);
  if (!facts) return not_connected(url, facts.error(), out);
  const Database db{config, *facts, url};
  out.ok("database.login", "user '" + url.user + "' at " + at + ", " + db.variable("version") + " " +
                               db.variable("version_comment"));
  check_schema(db, out);
  check_grants(db, out);
  check_settings(db, out);
  check_clock(db, out);
}

struct Known {
  Ownership ownership;
  std::size_t live = 0;
};

Result<Known> read_ownership(const Config& config, const Clock& clock) {
  StoreOptions options = config.store;
  options.migrate = false;
  options.timeout = kDoctorTimeout;
  auto store = open_mysql_store(options, clock);
  if (!store) return tl::unexpected(store.error());
  if (auto good = (*store)->check_schema(); !good) return tl::unexpected(good.error());
  auto ownership = look_at_ownership(**store);
  if (!ownership) return tl::unexpected(ownership.error());
  const auto live = (*store)->live_nodes();
  if (!live) return tl::unexpected(live.error());
  return Known{*std::move(ownership), live->size()};
}

}  // namespace

void check_database(const Config& config, const Clock& clock, Findings& out) {
  const auto url = parse_url(config.store.url);
  if (!url) return out.wrong("database.login", "store.url: " + url.error().message, "correct store.url");
  if (config.store.other_urls.empty())
    return check_one(config, clock, config.store, *url, url->host_port(3306), out);
  const auto addresses = look_at_mysql_addresses(config.store, clock, Addresses::kSlice);
  const auto serving =
      std::ranges::find_if(addresses, [](const DatabaseAddress& one) { return !one.away && !one.read_only; });
  const bool any = serving != addresses.end();
  check_addresses(addresses, any ? &*serving : nullptr, out);
  if (!any) return not_connected(*url, {Error::Kind::transient, "no address is available"}, out);
  check_one(config, clock, serving->options, serving->options.addresses->first(), serving->shown, out);
}

void check_ownership(const Config& config, const Clock& clock, rabbit::Probe* probe, Findings& out) {
  const std::string name = "ownership";
  const auto known = read_ownership(config, clock);
  if (!known) return out.skip(name, "the database or its schema is not available");
  if (probe == nullptr) return out.skip(name, "the broker is not available");
  const Ownership& ownership = known->ownership;
  // A database that has no id yet has no mark either.
  const auto report =
      probe->owner(config.broker, {ownership.database.empty() ? "none" : ownership.database, false});
  if (!report) return out.skip(name, "the broker does not answer: " + report.error().message);
  if (const std::string why = conflict(ownership, *report); !why.empty())
    return out.wrong(name, why,
                     "correct broker or store in the config; if they do belong together: rung adopt");
  if (!report->problem.empty())
    return out.warn(name, "cannot be checked: " + report->problem, "grant the rights in docs/permissions.md");
  if (const std::string why = shared(*report, known->live); !why.empty())
    return out.wrong(name, why, "rung adopt --yes");
  const std::string place = describe(report->place);
  if (!ownership.serves)
    return out.ok(name, "this database serves no broker yet; rung run makes it serve " + place);
  out.ok(name, "this database serves " + place +
                   (report->owner.empty() ? "; rung run marks the broker again" : ""));
}

void check_collector(const Config& config, Findings& out) {
  const OtelOptions& otel = config.otel;
  const std::string name = "otel.endpoint";
  if (otel.endpoint.empty()) return;
  constexpr Ms kTimeout{2000};
  net::HttpClient client({.base = otel.endpoint,
                          .headers = otel.headers,
                          .content_type = "application/json",
                          .ca = otel.ca,
                          .verify = otel.verify,
                          .connecting = kTimeout,
                          .answering = kTimeout});
  // No spans: nothing appears in the traces. Some collectors refuse that as a bad request.
  const net::HttpReply reply =
      client.send("POST", "/v1/traces", otel::encode({}, sidecar::exporter_options(config).resource));
  const std::string collector = "the collector at " + otel.endpoint;
  constexpr int kBadRequest = 400, kUnauthorized = 401, kForbidden = 403;
  if (reply.status / 100 == 2 || reply.status == kBadRequest) return out.ok(name, collector + " answers");
  if (reply.status == 0)
    return out.warn(
        name, collector + " " + reply.error + ": spans are dropped, messages are not affected",
        "start the collector, or correct otel.endpoint: its port for OTLP over HTTP, usually 4318");
  const bool refused = reply.status == kUnauthorized || reply.status == kForbidden;
  out.warn(name, collector + " answers with status " + std::to_string(reply.status),
           refused ? "correct the credentials in otel.headers"
                   : "correct otel.endpoint: its port for OTLP over HTTP, usually 4318");
}

void check_identity_provider(const Config& config, Findings& out) {
  const OidcOptions& oidc = config.http.oidc;
  const std::string name = "http.oidc";
  if (oidc.issuer.empty()) return;
  const auto found = oidc::discover(oidc, [&](const std::string& url) {
    net::HttpClientOptions options = oidc::get_options(url, oidc.ca);
    options.connecting = options.answering = kDoctorTimeout;
    return net::HttpClient(std::move(options)).send("GET", "");
  });
  if (found)
    return out.ok(name, "the identity provider " + oidc.issuer + " has " +
                            std::to_string(size_of(*found->keys)) + " keys for signatures");
  const std::string what = found.error().message + ": nobody can sign in; messages are not affected";
  if (found.error().is_transient())
    return out.warn(name, what, "start the identity provider, or correct http.oidc.issuer or http.oidc.ca");
  out.wrong(name, what, "correct http.oidc.issuer: the issuer of the provider's discovery document");
}

}  // namespace rung::cli
