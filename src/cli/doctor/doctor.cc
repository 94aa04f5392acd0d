// rung doctor: runs the checks and prints what they found. Here: those of the database (login, version,
// grants, durability, clock, schema), of whether it and the broker belong together (docs/operations.md), of
// the collector of traces and the identity provider; and those of this machine: whether the HTTP address is
// free, and how long certificates are valid. (Loading the config warns of secrets that others can read.)
#include "src/cli/doctor/doctor.h"

#include <fmt/format.h>
#include <netdb.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/cli/attach/attach.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/url.h"
#include "src/net/http_client.h"
#include "src/oidc/provider.h"
#include "src/sidecar/sidecar.h"
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
};

std::string grant(const Url& url, const std::string& privileges) {
  return "GRANT " + privileges + " ON `" + url.path + "`.* TO '" + url.user +
         "'@'HOST' (docs/permissions.md)";
}

void not_connected(const Url& url, const Error& error, Findings& out) {
  const std::string name = "database.login";
  const std::string rejected = "the database rejected user '" + url.user + "': " + error.message;
  if (error.kind == Error::Kind::transient) {
    out.away(name, "cannot connect to " + url.host_port(3306) + ": " + error.message,
             "start the database, or correct host and port of store.url");
  } else if (error.message.find("to database") != std::string::npos) {
    out.wrong("database.grants", error.message, grant(url, "SELECT, INSERT, UPDATE, DELETE, ..."));
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
    return out.warn(name, "not granted directly, perhaps through a role: " + missing, grant(db.url, missing));
  out.wrong(name, "user '" + db.url.user + "' lacks: " + missing, grant(db.url, missing));
}

void check_settings(const Database& db, Findings& out) {
  if (db.variable("innodb_flush_log_at_trx_commit") == "1")
    out.ok("database.flush", "commits are flushed to disk (innodb_flush_log_at_trx_commit = 1)");
  for (const ServerRisk& risk : server_risks(db.facts.variables)) {
    out.add(risk.serves ? "warn" : "wrong", risk.name, risk.what, risk.fix);
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

// Whether each address is reachable, and which one is in use; nullptr: none is.
const DatabaseAddress* check_addresses(const std::vector<DatabaseAddress>& addresses, Findings& out) {
  const std::string name = "database.address";
  const DatabaseAddress* serving = nullptr;
  std::string writers;
  for (const DatabaseAddress& one : addresses) {
    if (one.away) {
      out.warn(name, one.shown + " is unavailable: " + one.away->message,
               "start the database there, or correct store.urls");
    } else if (one.read_only) {
      out.ok(name, one.shown + " is reachable but read-only, so it is skipped");
    } else {
      out.ok(name, one.shown + " accepts writes" + (serving == nullptr ? " and is in use" : ""));
      writers += (serving == nullptr ? "" : ", ") + one.shown;
      if (serving == nullptr) serving = &one;
    }
  }
  if (serving == nullptr) {
    out.wrong("database.read_only", "no address of store.urls accepts writes",
              "promote one, or add the primary to store.urls");
  } else if (writers != serving->shown) {
    out.warn("database.writers",
             "several addresses accept writes: " + writers +
                 "; sidecars connected to different ones may not see each other's leases in time",
             "SET GLOBAL read_only = 1 on all but one");
  }
  return serving;
}

// All other checks, on the address in use.
void check_one(const Config& config, const Clock& clock, const StoreOptions& options, const Url& url,
               const std::string& at, Findings& out) {
  const auto facts = result_of([&] { return diagnose_mysql(options, clock); });
  if (!facts) return not_connected(url, facts.error(), out);
  const Database db{config, *facts, url};
  out.ok("database.login", "user '" + url.user + "' at " + at + ", " + db.variable("version") + " " +
                               db.variable("version_comment"));
  check_schema(db, out);
  check_grants(db, out);
  check_settings(db, out);
  check_clock(db, out);
}

void check_database(const Config& config, const Clock& clock, Findings& out) {
  const Url url = need(parse_url(config.store.url));
  if (config.store.other_urls.empty())
    return check_one(config, clock, config.store, url, url.host_port(3306), out);
  const auto addresses = look_at_mysql_addresses(config.store, clock, Addresses::kSlice);
  const DatabaseAddress* serving = check_addresses(addresses, out);
  if (serving == nullptr) return not_connected(url, {Error::Kind::transient, "no address is available"}, out);
  check_one(config, clock, serving->options, serving->options.addresses->first(), serving->shown, out);
}

// Whether the two belong together. `probe`: nullptr = the broker is not available.
void check_ownership(const Config& config, const Clock& clock, rabbit::Probe* probe, Findings& out) {
  const std::string name = "ownership";
  if (probe == nullptr) return out.skip(name, "the broker is not available");
  StoreOptions options = config.store;
  options.timeout = kDoctorTimeout;
  Sides sides;
  try {
    sides = look_at_both(*open_store(options, clock), *probe, config.broker);
  } catch (const std::exception& error) {  // Failed, StoreError
    return out.skip(name, std::string("cannot be compared: ") + error.what());
  }
  const PlaceReport& report = sides.report;
  if (const std::string why = conflict(sides.ownership, report); !why.empty())
    return out.wrong(name, why,
                     "correct broker or store in the config; if they do belong together: rung adopt");
  if (!report.problem.empty())
    return out.warn(name, "cannot be checked: " + report.problem, "grant the rights in docs/permissions.md");
  if (const std::string why = shared(report, sides.instances.size()); !why.empty())
    return out.wrong(name, why, "rung adopt --yes");
  const std::string place = describe(report.place);
  if (!sides.ownership.serves)
    return out.ok(name, "this database serves no broker yet; rung run makes it serve " + place);
  out.ok(name,
         "this database serves " + place + (report.owner.empty() ? "; rung run marks the broker again" : ""));
}

// The collector of traces; nothing without otel.endpoint.
void check_collector(const OtelOptions& otel, Findings& out) {
  const std::string name = "otel.endpoint", collector = "the collector at " + otel.endpoint;
  if (otel.endpoint.empty()) return;
  net::HttpClient client({.base = otel.endpoint,
                          .headers = otel.headers,
                          .ca = otel.ca,
                          .verify = otel.verify,
                          .connecting = kDoctorTimeout,
                          .answering = kDoctorTimeout});
  // No spans: nothing appears in the traces. Some collectors refuse that as a bad request.
  const net::HttpReply reply = client.send("POST", "/v1/traces", "{}");
  constexpr int kBadRequest = 400;
  if (reply.status / 100 == 2 || reply.status == kBadRequest) return out.ok(name, collector + " answers");
  out.warn(name,
           collector + " " +
               (reply.status == 0 ? reply.error : "answers with status " + std::to_string(reply.status)) +
               ": spans are dropped, messages are not affected",
           "start it, or correct otel.headers, or otel.endpoint: its port for OTLP over HTTP, usually 4318");
}

// The identity provider: its discovery document and its keys; nothing without http.oidc.
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
  const std::string what = found.error().message + ": users cannot sign in; messages are not affected";
  if (found.error().is_transient())
    return out.warn(name, what, "start the identity provider, or correct http.oidc.issuer or http.oidc.ca");
  out.wrong(name, what, "correct http.oidc.issuer: the issuer of the provider's discovery document");
}

void check_listen(const HttpOptions& http, Findings& out) {
  const std::string name = "http.listen";
  if (http.listen.empty()) return out.skip(name, "http.listen is not set");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(http.port);
  if (const int failed = getaddrinfo(http.host.c_str(), port.c_str(), &hints, &found); failed != 0)
    return out.wrong(name, http.listen + ": " + gai_strerror(failed), "correct http.listen");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const int why = bind(fd, found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
  if (fd >= 0) close(fd);
  if (why == 0) return out.ok(name, http.listen + " is free");
  if (why != EADDRINUSE)
    return out.wrong(name, http.listen + ": " + std::strerror(why), "correct http.listen");
  if (sidecar::ask_own(http, "/healthz", kDoctorTimeout).status == 200)
    return out.ok(name, "a sidecar answers at " + http.listen);
  out.wrong(name, http.listen + " is in use by another program", "choose another port for http.listen");
}

// Of a chain the first one: the program's own.
void check_certificate(const std::string& path, const char* name, Findings& out) {
  if (path.empty()) return;
  const std::unique_ptr<BIO, int (*)(BIO*)> file(BIO_new_file(path.c_str(), "r"), BIO_free);
  const std::unique_ptr<X509, void (*)(X509*)> cert(
      file == nullptr ? nullptr : PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr), X509_free);
  int days = 0, seconds = 0;
  if (cert == nullptr || ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(cert.get())) != 1)
    return out.wrong(name, path + " cannot be read here as a certificate (PEM)", "correct the file");
  const Ms left = std::chrono::hours{24} * days + std::chrono::seconds{seconds};
  if (left > std::chrono::hours{24 * 14}) return out.ok(name, path + " is valid for " + humanise(left));
  const char* fix = "renew it, and reload the sidecars";
  if (left <= Ms{0}) return out.wrong(name, path + " has expired", fix);
  out.warn(name, path + " expires in " + humanise(left), fix);
}

std::string findings_text(const Json& answer) {
  static const std::map<std::string, Colour> kColours = {
      {"ok", Colour::green}, {"warn", Colour::yellow}, {"wrong", Colour::red}, {"skipped", Colour::dim}};
  std::map<std::string, int> count;
  std::string out;
  for (const Json& one : part_of(answer, "checks")) {
    const std::string status = text_of(one, "status"), fix = text_of(one, "fix");
    ++count[status];
    out += paint(fmt::format("{:8}", status), kColours.at(status)) +
           fmt::format("{:24} {}\n", text_of(one, "name"), one_line(text_of(one, "what")));
    if (!fix.empty()) out += "          fix: " + one_line(fix) + "\n";
  }
  return out + fmt::format("\n{} ok, {} warnings, {} wrong, {} skipped\n", count["ok"], count["warn"],
                           count["wrong"], count["skipped"]);
}

int doctor(const CLI::App&) {
  const Config config = load(ConfigFor::check);
  if (!config.groups.empty() && config.groups.own.empty())
    throw Failed(kUserError, which_group(config.groups));
  Findings out;
  out.ok("config", find_config() + " is valid");
  const SystemClock clock;
  const auto probe = check_broker(config, clock, out);
  check_database(config, clock, out);
  check_ownership(config, clock, probe.get(), out);
  check_collector(config.otel, out);
  check_identity_provider(config, out);
  check_listen(config.http, out);
  check_certificate(config.http.cert, "files.http_cert", out);
  check_certificate(config.broker.cert, "files.broker_cert", out);
  check_certificate(config.store.cert, "files.store_cert", out);
  const bool healthy =
      std::ranges::none_of(out.rows, [](const Json& one) { return text_of(one, "status") == "wrong"; });
  print_answer({{"healthy", healthy}, {"checks", out.rows}}, findings_text);
  if (out.unreachable) return kUnreachable;
  return healthy ? kSuccess : kUserError;
}

}  // namespace

void Findings::add(const char* status, const std::string& name, const std::string& what,
                   const std::string& fix) {
  rows.push_back({{"name", name}, {"status", status}, {"what", what}, {"fix", api::text_or_null(fix)}});
}

void add_doctor(CLI::App& app) {
  add_command(
      app, "doctor", "Connects to all configured services and reports problems",
      "Examples:\n"
      "  rung doctor\n"
      "  rung doctor --json\n"
      "Each line is ok, warn, wrong or skipped, followed by a command that fixes it. It changes nothing on\n"
      "the servers. Exit code 1 if anything keeps Rung from working, 2 if a service is not reached.",
      doctor, Takes::json);
}

}  // namespace rung::cli
