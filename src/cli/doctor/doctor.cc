// rung doctor: connects to everything and changes nothing; one finding a line, with what mends it. Checks of
// an unreachable service are skipped. (Loading the config warns of secrets that others can read.)
#include <fmt/format.h>
#include <netdb.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "plugin/rabbitmq/consume/error_queues.h"
#include "plugin/rabbitmq/topology/attachment.h"
#include "plugin/rabbitmq/topology/probe.h"
#include "plugin/rabbitmq/topology/return_route.h"
#include "src/cli/attach/attach.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"
#include "src/config/config.h"
#include "src/core/base/time.h"
#include "src/core/base/url.h"
#include "src/net/http_client.h"
#include "src/oidc/provider.h"
#include "src/sidecar/attach.h"
#include "src/sidecar/sidecar.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::cli {
namespace {

using rabbit::QueueFacts;
using rabbit::shell_quote;

// How long a check waits for a service, for connecting and for each answer.
constexpr Ms kDoctorTimeout{std::chrono::seconds{5}};
constexpr Ms kMostOffset{500};
constexpr std::int64_t kLeastPacket = 16LL * 1024 * 1024;  // a message body is sent in one statement
constexpr std::size_t kMostOfPattern = 20;                 // findings for the queues of one pattern

// What was found: rows {name, status, what, fix}. `name`: "broker.login", for scripts. `what`: a sentence.
// `fix`: the command or change that fixes it; "" if nothing is to be fixed.
struct Findings {
  void ok(const std::string& name, const std::string& what) { add("ok", name, what); }
  void skip(const std::string& name, const std::string& what) { add("skipped", name, what); }
  void warn(const std::string& name, const std::string& what, const std::string& fix) {
    add("warn", name, what, fix);
  }
  void wrong(const std::string& name, const std::string& what, const std::string& fix) {
    add("wrong", name, what, fix);
  }
  // Wrong because a service does not answer.
  void away(const std::string& name, const std::string& what, const std::string& fix) {
    wrong(name, what, fix);
    unreachable = true;
  }
  void add(const char* status, const std::string& name, const std::string& what,
           const std::string& fix = {}) {
    rows.push_back({{"name", name}, {"status", status}, {"what", what}, {"fix", api::text_or_null(fix)}});
  }

  Json rows = Json::array();
  bool unreachable = false;
};

// -------------------------------------------------------------------------------------------- the database

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
  std::erase_if(wanted, [&](const std::string& privilege) {
    return std::ranges::find(db.facts.privileges, privilege) != db.facts.privileges.end();
  });
  const std::string missing = fmt::format("{}", fmt::join(wanted, ", "));
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
  const std::string what =
      fmt::format("the database's clock is {} {} this machine's (within {})", humanise(offset),
                  db.facts.clock_offset < Ms{0} ? "behind" : "ahead of", humanise(db.facts.round_trip));
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
  const Url& url = config.store.urls.front();
  if (config.store.urls.size() == 1)
    return check_one(config, clock, config.store, url, url.host_port(3306), out);
  const auto addresses = look_at_mysql_addresses(config.store, clock, Addresses::kSlice);
  const DatabaseAddress* serving = check_addresses(addresses, out);
  if (serving == nullptr) return not_connected(url, {Error::Kind::transient, "no address is available"}, out);
  check_one(config, clock, serving->options, serving->options.addresses->first(), serving->shown, out);
}

// ---------------------------------------------------------------------------------------------- the broker

std::string user_of(const Url& url) { return url.user.empty() ? "guest" : url.user; }

bool contains(const Error& error, std::string_view text) {
  return error.message.find(text) != std::string::npos;
}
bool is_missing(const Result<void>& answer) {
  return !answer && answer.error().kind == Error::Kind::not_found;
}

class BrokerCheck {
 public:
  BrokerCheck(const Config& config, const Clock& clock, Findings& out)
      : config_(config), clock_(clock), out_(out) {}

  std::unique_ptr<rabbit::Probe> run() {
    auto opened = rabbit::Probe::open(config_.broker, clock_, kDoctorTimeout);
    if (opened) {
      probe_ = opened->get();
      user_ = user_of(probe_->address().url);
      out_.ok("broker.login", "user '" + user_ + "' at " + probe_->address().shown);
      out_.ok("broker.vhost", "virtual host '" + vhost_ + "'");
      check_permissions();
      check_publishing();
      check_topology();
    } else {
      tell_not_connected(opened.error());
    }
    if (config_.broker.urls.size() > 1) check_addresses();
    check_management();
    check_queues();
    check_error_queues();
    return opened ? *std::move(opened) : nullptr;
  }

 private:
  std::string own(const char* end) const { return config_.broker.prefix + end; }
  // As in docs/permissions.md.
  std::string grant() const {
    std::string names = rabbit::policy_pattern(config_.broker.prefix);  // ^rung$
    names.replace(names.size() - 1, 1, "\\.");
    return "rabbitmqctl set_permissions -p " + shell_quote(vhost_) + " " + shell_quote(user_) + " " +
           shell_quote(names) + " " + shell_quote(".*") + " " + shell_quote(names) + " (docs/permissions.md)";
  }

  // Why the connection failed, and how to fix it.
  void tell_not_connected(const Error& error) {
    const bool reached = contains(error, "vhost");
    if (contains(error, "Login was refused") || contains(error, "ACCESS_REFUSED - Login")) {
      out_.wrong(
          "broker.login", "the broker rejected user '" + user_ + "': wrong password or unknown user",
          "correct broker.url, or run: rabbitmqctl change_password " + shell_quote(user_) + " PASSWORD");
    } else if (reached) {
      out_.ok("broker.login", "user '" + user_ + "' at " + url_.host_port(5672));
      const bool missing = contains(error, "not found");
      out_.wrong("broker.vhost",
                 missing ? "no such virtual host: '" + vhost_ + "'"
                         : "user '" + user_ + "' has no access to virtual host '" + vhost_ + "'",
                 missing ? "correct the virtual host in broker.url, or run: rabbitmqctl add_vhost " +
                               shell_quote(vhost_)
                         : grant());
    } else {
      const std::string where = config_.broker.urls.size() == 1 ? url_.host_port(5672) : "any of broker.urls";
      out_.away("broker.login", "cannot connect to " + where + ": " + error.message,
                "start RabbitMQ, or correct host and port of broker.url");
    }
    if (!reached) out_.skip("broker.vhost", "not connected");
    for (const char* name : {"broker.permissions", "broker.topology"}) out_.skip(name, "not connected");
  }

  // Whether each address is reachable, and belongs to the same broker.
  void check_addresses() {
    std::map<std::string, std::string> clusters;  // their names, and an address of each
    for (const rabbit::AddressFacts& one :
         rabbit::look_at_addresses(config_.broker, clock_, Addresses::kSlice)) {
      if (one.error.message.empty()) {
        const bool in_use = probe_ != nullptr && one.address == probe_->address().shown;
        out_.ok("broker.address", one.address + " is reachable" + (in_use ? " and in use" : ""));
        clusters.emplace(one.cluster, one.address);
      } else {
        out_.warn("broker.address", one.address + " is unavailable: " + one.error.message,
                  "start RabbitMQ there, or correct broker.urls");
      }
    }
    if (clusters.size() < 2) return;
    std::string where;
    for (const auto& [cluster, address] : clusters)
      where += (where.empty() ? "" : ", ") + address + " of '" + cluster + "'";
    out_.wrong("broker.cluster",
               "the addresses belong to different brokers, which do not share queues: " + where,
               "list only the nodes of one cluster in broker.urls");
  }

  void check_permission(const char* name, const std::string& action, const Result<void>& done) {
    if (done) return out_.ok(name, "user '" + user_ + "' is allowed to " + action);
    out_.wrong(name, "user '" + user_ + "' is not allowed to " + action + ": " + done.error().message,
               grant());
  }

  // A name for what is declared and published for a check.
  std::string temporary() const { return own(".doctor-") + std::to_string(getpid()); }

  void check_permissions() {
    const std::string names = "names that begin with " + own(".");
    const auto declared = probe_->may_declare(temporary());
    check_permission("broker.configure", "declare " + names, declared);
    if (declared) {
      check_permission("broker.read", "read from " + names, probe_->may_read(temporary()));
    } else {
      out_.skip("broker.read", "no queue could be declared to read from");
    }
    const std::string failed = rabbit::failed_exchange(config_.broker.prefix);
    const auto bind = probe_->may_bind(failed, failed);
    if (is_missing(bind)) return out_.skip("broker.write", failed + " does not exist yet");
    check_permission("broker.write", "bind " + names, bind);
  }

  // On a connection of its own: during an alarm it is of no use after it.
  void check_publishing() {
    const auto probe = rabbit::Probe::open(config_.broker, clock_, kDoctorTimeout);
    const auto done =
        probe ? (*probe)->may_publish("", temporary() + "-none") : tl::unexpected(probe.error());
    if (done || !probe || (*probe)->blocked().empty())
      return check_permission("broker.write_queues", "publish to queues (exchange amq.default)", done);
    out_.wrong("broker.alarm", "RabbitMQ blocks publishers: " + (*probe)->blocked(),
               "free memory or disk on its nodes; rabbitmqctl status shows the alarms");
    out_.skip("broker.write_queues", "RabbitMQ blocks publishers");
  }

  void check_topology() {
    const std::string name = "broker.topology";
    std::set<std::string> missing;
    bool wrong = false;
    const auto look = [&](const std::string& own, const Result<void>& there) {
      if (is_missing(there)) missing.insert(own);
      if (there || is_missing(there)) return;
      wrong = true;
      out_.wrong(name, own + " cannot be checked: " + there.error().message, grant());
    };
    for (const char* end : {".failed", ".delay", ".results", ".parked"}) {
      look(own(end), probe_->exchange_exists(own(end)));
      look(own(end), probe_->queue_exists(own(end)));
    }
    look(own(".return"), probe_->exchange_exists(own(".return")));
    if (!missing.empty()) {
      out_.warn(name, fmt::format("missing exchanges or queues: {}", fmt::join(missing, ", ")),
                "rung run declares them at start");
    } else if (!wrong) {
      out_.ok(name, "all exchanges and queues of prefix " + own("") + " exist");
    }
    for (const auto& [from, to] : config_.delays) {
      for (const std::string& exchange : {from, to}) {
        if (const auto there = probe_->exchange_exists(exchange); !there)
          out_.warn("broker.delays", "exchange '" + exchange + "' of delays: " + there.error().message,
                    exchange == from ? "rung run declares it at start" : "declare it");
      }
    }
  }

  // ------------------------------------------------------------------------------ over the management API

  void check_management() {
    const auto admin = rabbit::management_admin(config_.broker, kDoctorTimeout);
    if (!admin) {
      seen_ = tl::unexpected(admin.error());
      return out_.wrong("management", admin.error().message, "correct broker.management");
    }
    seen_ = (*admin)->reach().and_then(
        [&] { return rabbit::read_vhost(**admin, config_.broker.prefix); });  // once: it may be long
    if (!seen_) {
      // A refusal already says how to fix it.
      const bool silent = contains(seen_.error(), "is not reachable");
      return out_.warn(
          "management", seen_.error().message,
          silent ? "rabbitmq-plugins enable rabbitmq_management, or correct broker.management" : "");
    }
    out_.ok("management", (*admin)->name() + " lists queues and policies");
    check_own(**admin);
    check_queue_type();
  }

  // Of PREFIX.failed; "" = it does not exist.
  std::string inlet_type() const {
    const QueueFacts* failed = seen_->find(own(".failed"));
    return failed == nullptr ? std::string() : failed->type;
  }

  // Rung's own queues and exchanges, and what others have set on them.
  void check_own(rabbit::QueueAdmin& admin) {
    const auto state = rabbit::read_own_state(admin, config_.broker.prefix, vhost_, seen_->policies);
    if (!state) return out_.skip("settings", state.error().message);
    const auto found =
        rabbit::judge_settings(config_.broker.prefix, config_.broker.rabbitmq.queue_type, *state);
    for (const rabbit::SettingFinding& one : found) {
      out_.add(one.harm == rabbit::Harm::fatal ? "wrong" : "warn", "settings." + one.subject, one.what,
               one.mend);
    }
    if (found.empty())
      out_.ok("settings", "nothing harms Rung's own queues and exchanges (a new policy shows after 5 s)");
  }

  // A classic queue is on a single node of a cluster.
  void check_queue_type() {
    const std::size_t nodes = rabbit::cluster_nodes(config_.broker, seen_->queues, kDoctorTimeout).size();
    if (nodes < 2) return;
    std::string type = config_.broker.rabbitmq.queue_type;
    if (type == "auto") type = inlet_type();
    if (type.empty()) return;  // the broker's version decides, at the first start
    const std::string cluster = "RabbitMQ is a cluster of " + std::to_string(nodes) + " nodes";
    if (type == "quorum")
      return out_.ok("broker.queue_type", cluster + ", and Rung's own queues are quorum queues");
    out_.warn("broker.queue_type",
              cluster + ", and Rung's own are classic queues: while the node of one is down, it stands still",
              "set broker.queue_type: quorum, and restart the sidecars when they are empty "
              "(docs/broker-settings.md)");
  }

  // ------------------------------------------------------------------------------ the queues of the config

  void check_queues() {
    const auto check = [this](const std::string& queue, Findings& out) {
      if (probe_ != nullptr) check_retries(queue, out);
      if (seen_) check_attachment(queue, out);
    };
    for (const auto& [queue, rules] : config_.rules->queues()) check(queue, out_);
    if (!seen_) return out_.skip("queues", "attachment cannot be checked without the management API");
    auto matched = matched_queues(config_, seen_->queues);
    for (const RuleBook::PatternRules& entry : config_.rules->patterns())
      check_matching("queue." + entry.pattern.text(), matched[entry.pattern.text()],
                     "correct it: rung attached lists the queues", check);
  }

  // Whether its retries can keep their routing key: the sidecar binds each queue to <prefix>.return on first
  // use. Also checks that the queue has a consumer.
  void check_retries(const std::string& queue, Findings& out) {
    const std::string exchange = rabbit::return_exchange(config_.broker.prefix);
    const std::string name = "queue." + queue + ".routing_key";
    // RabbitMQ 4.3 refuses even this check without permissions; then the attempt to bind says which are
    // missing.
    if (is_missing(probe_->queue_exists(queue)) || is_missing(probe_->exchange_exists(exchange))) {
      out.skip(name, "the queue or " + exchange + " does not exist yet");
    } else if (const auto bind = probe_->may_bind(queue, exchange)) {
      out.ok(name, "retries keep their routing key, through exchange " + exchange);
    } else {
      out.warn(name,
               "retries lose their routing key: user '" + user_ + "' is not allowed to bind it to " +
                   exchange + ": " + bind.error().message,
               grant());
    }
    if (const auto depth = probe_->depth(queue); depth && depth->consumers == 0 && depth->ready > 0)
      out.warn("queue." + queue + ".consumer",
               "it has no consumer, and " + std::to_string(depth->ready) + " messages wait in it",
               "start its consumer; until it has read them, silence does not count");
  }

  void check_attachment(const std::string& queue, Findings& out) const {
    const std::string name = "queue." + queue;
    const QueueFacts* facts = seen_->find(queue);
    if (facts == nullptr)
      return out.warn(name, "no such queue: '" + queue + "' (named in the config)",
                      "declare it, then run: " + sidecar::attach_command(queue));
    const auto plan = sidecar::plan_attach(config_.broker, *facts, *seen_);
    const bool attached = is_attached(plan.answer.attached);
    // Only a warning: its consumer may publish failures itself.
    if (!attached) out.warn(name, "not attached: " + plan.answer.detail, plan.command);
    if (attached) out.ok(name, "attached by " + describe(plan.answer));
    if (attached && !plan.drift.empty()) out.warn(name + ".policy", plan.drift, plan.command);
    for (const QueueNote& note : queue_notes(*facts, seen_->policies, config_.rules->queue(queue).silence))
      out.add(note.fine() ? "ok" : "warn", name + "." + note.name, note.what, note.fix);
    // One that is not attached passes nothing on: its consumers publish their failures themselves.
    if (attached && facts->type == "classic" && inlet_type() == "quorum")
      out.warn(name + ".strategy",
               "a classic queue loses what its consumers reject while " + own(".failed") +
                   ", a quorum queue, has no leader: half a second after a start of the broker",
               "make it a quorum queue with dead letters at-least-once (docs/broker-settings.md)");
  }

  // The queues that a pattern matches: what is not right of each, and a line for the pattern. `none`: what to
  // do where it matches none.
  template <typename Check>
  void check_matching(const std::string& name, const std::vector<std::string>& queues, const char* none,
                      const Check& check) {
    if (queues.empty()) return out_.warn(name, "no queue matches this pattern", none);
    Findings each;
    for (const std::string& queue : queues) check(queue, each);
    std::size_t found = 0;
    for (const Json& one : each.rows) {
      if (text_of(one, "status") != "ok" && ++found <= kMostOfPattern) out_.rows.push_back(one);
    }
    if (found > kMostOfPattern)
      out_.warn(name, std::to_string(found - kMostOfPattern) + " more findings for its queues",
                "mend those above, and run rung doctor again");
    out_.ok(name, std::to_string(queues.size()) + " queues match" + (found == 0 ? ", all is right" : ""));
  }

  // Whether they exist and can be read, and where their messages go back to.
  void check_error_queues() {
    const ErrorQueues& queues = *config_.broker.error_queues;
    if (probe_ == nullptr && !queues.empty()) return out_.skip("error_queues", "not connected to the broker");
    for (const ErrorQueue& entry : queues.all()) {
      const std::string name = "error_queue." + entry.from;
      const auto check = [&](const std::string& queue, Findings& out) {
        check_error_queue(entry, queue, out);
      };
      if (!entry.is_pattern()) {
        check(entry.from, out_);
      } else if (!seen_) {
        out_.warn(name, "the queues that match cannot be listed: " + seen_.error().message,
                  "rabbitmq-plugins enable rabbitmq_management, or name each queue in error_queues");
      } else {
        std::vector<std::string> matched;
        for (const QueueFacts& queue : seen_->queues) {
          if (rabbit::may_match(config_.broker, queue) && queues.find(queue.name) == &entry)
            matched.push_back(queue.name);
        }
        check_matching(name, matched,
                       "correct error_queues, or do nothing: Rung looks for new queues every minute", check);
      }
    }
  }

  void check_error_queue(const ErrorQueue& entry, const std::string& queue, Findings& out) {
    const std::string name = "error_queue." + queue, to = target_by_name(entry, queue);
    if (is_missing(probe_->queue_exists(queue)))
      return out.warn(
          name, "no such queue: '" + queue + "'",
          "correct error_queues, or do nothing: Rung consumes it within 5 seconds after it is declared");
    if (const auto read = probe_->may_consume(queue); !read)
      return out.wrong(name, "it cannot be read: " + read.error().message,
                       "add it to the user's read pattern: docs/permissions.md");
    // What only the management API knows.
    const QueueFacts* facts = seen_ ? seen_->find(queue) : nullptr;
    if (const std::string why = facts == nullptr ? "" : rabbit::unfit(*facts); !why.empty())
      return out.wrong(name, why, "declare it anew, or remove it from error_queues");
    if (entry.retries && !to.empty() && is_missing(probe_->queue_exists(to)))
      return out.warn(name,
                      "its messages go back to '" + to + "', which does not exist: they would be parked",
                      "declare '" + to + "', or set error_queues.to");
    const std::string goes = to.empty() ? "the queue that each message names" : "'" + to + "'";
    out.ok(name, "exists and can be read; dialect " + entry.dialect->name + ", its messages " +
                     (entry.retries ? "go back to " + goes : "are parked"));
  }

  const Config& config_;
  const Clock& clock_;
  Findings& out_;
  const Url url_ = config_.broker.urls.front();
  std::string user_ = user_of(url_);
  const std::string vhost_ = url_.vhost();
  rabbit::Probe* probe_ = nullptr;  // not connected
  Result<rabbit::Vhost> seen_;      // error: the management API does not tell
};

// --------------------------------------------------------------------------------- both, and what is beside

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
  net::HttpClientOptions options = oidc::client_options(oidc.ca);
  options.connecting = options.answering = kDoctorTimeout;
  net::HttpClient client(std::move(options));
  const auto found = oidc::discover(oidc, client);
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
  if (!http.listen) return out.skip(name, "http.listen is not set");
  const std::string at = http.listen->host_port(0);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(http.listen->port);
  if (const int failed = getaddrinfo(http.listen->host.c_str(), port.c_str(), &hints, &found); failed != 0)
    return out.wrong(name, at + ": " + gai_strerror(failed), "correct http.listen");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const int why = bind(fd, found->ai_addr, found->ai_addrlen) == 0 ? 0 : errno;
  if (fd >= 0) close(fd);
  if (why == 0) return out.ok(name, at + " is free");
  if (why != EADDRINUSE) return out.wrong(name, at + ": " + std::strerror(why), "correct http.listen");
  if (sidecar::ask_own(http, "/healthz", kDoctorTimeout).status == 200)
    return out.ok(name, "a sidecar answers at " + at);
  out.wrong(name, at + " is in use by another program", "choose another port for http.listen");
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
  std::map<std::string, int> count;
  std::string out;
  for (const Json& one : part_of(answer, "checks")) {
    const std::string status = text_of(one, "status"), fix = text_of(one, "fix");
    ++count[status];
    out += fmt::format("{:8}{:24} {}\n", status, text_of(one, "name"), one_line(text_of(one, "what")));
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
  const auto probe = BrokerCheck(config, clock, out).run();
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
