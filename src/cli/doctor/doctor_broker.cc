// Checks of the broker, over AMQP and over the management API.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>

#include "plugin/rabbitmq/consume/error_queues.h"
#include "plugin/rabbitmq/topology/attachment.h"
#include "plugin/rabbitmq/topology/return_route.h"
#include "src/cli/attach/attach.h"
#include "src/cli/doctor/doctor.h"
#include "src/core/base/url.h"
#include "src/sidecar/attach.h"

namespace rung::cli {
namespace {

using rabbit::QueueFacts;
using rabbit::shell_quote;

constexpr std::size_t kMostOfPattern = 20;  // findings for the queues of one pattern

std::string user_of(const Url& url) { return url.user.empty() ? "guest" : url.user; }

bool contains(const Error& error, std::string_view text) {
  return error.message.find(text) != std::string::npos;
}
bool is_missing(const Result<void>& answer) {
  return !answer && answer.error().kind == Error::Kind::not_found;
}

class BrokerCheck {
 public:
  BrokerCheck(const Config& config, const Clock& clock, const Url& url, Findings& out)
      : config_(config), clock_(clock), url_(url), user_(user_of(url)), vhost_(url.vhost()), out_(out) {}

  std::unique_ptr<rabbit::Probe> run() {
    auto opened = rabbit::Probe::open(config_.broker, clock_, kDoctorTimeout);
    admin_ = rabbit::management_admin(config_.broker, kDoctorTimeout);
    if (opened) {
      probe_ = opened->get();
      user_ = user_of(probe_->address().url);
      const std::string serving = probe_->address().shown;
      out_.ok("broker.login", "user '" + user_ + "' at " + serving);
      out_.ok("broker.vhost", "virtual host '" + vhost_ + "'");
      check_addresses(serving);
      check_permissions();
      check_topology();
      check_routing_keys();
      check_publishing();
    } else {
      check_addresses("");
      tell_not_connected(opened.error());
    }
    check_management();
    if (!config_.broker.error_queues->empty()) check_error_queues();
    return opened ? *std::move(opened) : nullptr;
  }

 private:
  std::string own(const char* end) const { return config_.broker.prefix + end; }
  // As in docs/permissions.md.
  std::string grant() const {
    std::string names = "^";
    for (const char c : config_.broker.prefix) names += c == '.' ? std::string("\\.") : std::string(1, c);
    names += "\\.";
    return "rabbitmqctl set_permissions -p " + shell_quote(vhost_) + " " + shell_quote(user_) + " " +
           shell_quote(names) + " " + shell_quote(".*") + " " + shell_quote(names) + " (docs/permissions.md)";
  }
  // Read once: there may be many queues.
  const Result<rabbit::Vhost>& vhost() {
    if (!seen_)
      seen_ = admin_ ? rabbit::read_vhost(**admin_, config_.broker.prefix) : tl::unexpected(admin_.error());
    return *seen_;
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
      const std::string where =
          config_.broker.other_urls.empty() ? url_.host_port(5672) : "any of broker.urls";
      out_.away("broker.login", "cannot connect to " + where + ": " + error.message,
                "start RabbitMQ, or correct host and port of broker.url");
    }
    if (!reached) out_.skip("broker.vhost", "not connected");
    for (const char* name : {"broker.permissions", "broker.topology"}) out_.skip(name, "not connected");
  }

  // If there are several addresses: whether each is reachable. `serving`: the one that the other checks use.
  void check_addresses(const std::string& serving) {
    if (config_.broker.other_urls.empty()) return;
    std::set<std::string> clusters;
    std::string where;
    for (const rabbit::AddressFacts& one :
         rabbit::look_at_addresses(config_.broker, clock_, Addresses::kSlice)) {
      if (!one.error.message.empty()) {
        out_.warn("broker.address", one.address + " is unavailable: " + one.error.message,
                  "start RabbitMQ there, or correct broker.urls");
        continue;
      }
      out_.ok("broker.address",
              one.address + (one.address == serving ? " is reachable and in use" : " is reachable"));
      if (clusters.insert(one.cluster).second)
        where += (where.empty() ? "" : ", ") + one.address + " of '" + one.cluster + "'";
    }
    if (clusters.size() > 1)
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
    std::vector<std::string> missing;
    bool wrong = false;
    const auto look = [&](const std::string& name, const Result<void>& there) {
      if (is_missing(there) && std::ranges::find(missing, name) == missing.end()) missing.push_back(name);
      if (there || is_missing(there)) return;
      wrong = true;
      out_.wrong("broker.topology", name + " cannot be checked: " + there.error().message, grant());
    };
    for (const char* end : {".failed", ".delay", ".results", ".parked"}) {
      look(own(end), probe_->exchange_exists(own(end)));
      look(own(end), probe_->queue_exists(own(end)));
    }
    const std::string to_return = rabbit::return_exchange(config_.broker.prefix);
    if (!probe_->exchange_exists(to_return)) missing.push_back(to_return);
    if (!missing.empty()) {
      out_.warn("broker.topology", fmt::format("missing exchanges or queues: {}", fmt::join(missing, ", ")),
                "rung run declares them at start");
    } else if (!wrong) {
      out_.ok("broker.topology", "all exchanges and queues of prefix " + own("") + " exist");
    }
    for (const auto& [from, to] : config_.delays) {
      for (const std::string& name : {from, to}) {
        if (const auto there = probe_->exchange_exists(name); !there)
          out_.warn("broker.delays", "exchange '" + name + "' of delays: " + there.error().message,
                    name == from ? "rung run declares it at start" : "declare it");
      }
    }
  }

  // Whether retries of the config's queues can keep their routing key: the sidecar binds each queue to
  // <prefix>.return on first use.
  void check_routing_key(const std::string& queue, Findings& out) {
    const std::string exchange = rabbit::return_exchange(config_.broker.prefix);
    const std::string name = "queue." + queue + ".routing_key";
    // RabbitMQ 4.3 refuses even this check without permissions; then the attempt to bind says which are
    // missing.
    if (is_missing(probe_->queue_exists(queue)) || is_missing(probe_->exchange_exists(exchange)))
      return out.skip(name, "the queue or " + exchange + " does not exist yet");
    const auto bind = probe_->may_bind(queue, exchange);
    if (bind) return out.ok(name, "retries keep their routing key, through exchange " + exchange);
    out.warn(name,
             "retries lose their routing key: user '" + user_ + "' is not allowed to bind it to " + exchange +
                 ": " + bind.error().message,
             grant());
  }

  void check_routing_keys() {
    for (const auto& [queue, rules] : config_.rules->queues()) {
      check_routing_key(queue, out_);
      if (const auto depth = probe_->depth(queue); depth && depth->consumers == 0 && depth->ready > 0)
        out_.warn("queue." + queue + ".consumer",
                  "it has no consumer, and " + std::to_string(depth->ready) + " messages wait in it",
                  "start its consumer; until it has read them, silence does not count");
    }
    if (config_.rules->patterns().empty() || !vhost()) return;  // check_management() says why
    for (const auto& [pattern, names] : matched_queues(config_, vhost()->queues)) {
      const auto check = [this](const std::string& queue, Findings& out) { check_routing_key(queue, out); };
      if (check_each(pattern, names, check))
        out_.ok("queue." + pattern + ".routing_key",
                "retries of " + std::to_string(names.size()) + " queues keep their routing key");
    }
  }

  // What is not right of the queues of a pattern. True: all is.
  template <typename Check>
  bool check_each(const std::string& pattern, const std::vector<std::string>& queues, const Check& check) {
    Findings each;
    for (const std::string& queue : queues) check(queue, each);
    std::size_t found = 0;
    for (const Json& one : each.rows) {
      if (text_of(one, "status") != "ok" && ++found <= kMostOfPattern) out_.rows.push_back(one);
    }
    if (found > kMostOfPattern)
      out_.warn("queue." + pattern, std::to_string(found - kMostOfPattern) + " more findings for its queues",
                "mend those above, and run rung doctor again");
    return found == 0;
  }

  // ------------------------------------------------------------------------------ over the management API

  void check_management() {
    if (!admin_) return out_.wrong("management", admin_.error().message, "correct broker.management");
    const auto reached = (*admin_)->reach();
    if (!reached || !vhost()) {
      const Error& why = reached ? vhost().error() : reached.error();
      // A refusal already says how to fix it.
      const bool silent = contains(why, "is not reachable");
      out_.warn("management", why.message,
                silent ? "rabbitmq-plugins enable rabbitmq_management, and set broker.management "
                         "if it is not on port 15672 of the broker's host"
                       : "");
      return out_.skip("queues", "attachment of queues cannot be checked without the management API");
    }
    out_.ok("management", (*admin_)->name() + " lists queues and policies");
    check_own();
    check_queue_type();
    for (const auto& [queue, rules] : config_.rules->queues()) check_queue(queue, out_);
    check_patterns();
  }

  // Of PREFIX.failed; "" = it does not exist.
  std::string inlet_type() {
    const QueueFacts* failed = vhost()->find(own(".failed"));
    return failed == nullptr ? std::string() : failed->type;
  }

  void check_queue(const std::string& queue, Findings& out) {
    const std::string name = "queue." + queue;
    const QueueFacts* facts = vhost()->find(queue);
    if (facts == nullptr)
      return out.warn(name, "no such queue: '" + queue + "' (named in the config)",
                      "declare it, then run: " + sidecar::attach_command(queue));
    const auto plan = sidecar::plan_attach(config_.broker, *facts, *vhost());
    const bool attached = is_attached(plan.answer.attached);
    if (attached) {
      out.ok(name, plan.answer.attached == rabbit::Attached::yes_by_argument
                       ? "attached by its argument"
                       : "attached by " + describe(plan.answer));
      if (!plan.drift.empty()) out.warn(name + ".policy", plan.drift, plan.command);
    } else {
      // Only a warning: its consumer may publish failures itself.
      out.warn(name, "not attached: " + plan.answer.detail, plan.command);
    }
    for (const QueueNote& note :
         queue_notes(*facts, vhost()->policies, config_.rules->queue(queue).silence)) {
      out.add(note.fine() ? "ok" : "warn", name + "." + note.name, note.what, note.fix);
    }
    // One that is not attached passes nothing on: its consumers publish their failures themselves.
    if (attached && facts->type == "classic" && inlet_type() == "quorum")
      out.warn(
          name + ".strategy",
          "a classic queue loses what its consumers reject while " + own(".failed") +
              ", a quorum queue, has no leader: half a second after a start of the broker",
          "make it a quorum queue with dead-letter-strategy: at-least-once and overflow: reject-publish; on "
          "a single node, Rung's own queues as classic queues help as well (docs/broker-settings.md)");
  }

  // Rung's own queues and exchanges, and what others have set on them.
  void check_own() {
    const auto state = rabbit::read_own_state(**admin_, config_.broker.prefix, vhost_, vhost()->policies);
    if (!state) return out_.skip("settings", state.error().message);
    const auto found =
        rabbit::judge_settings(config_.broker.prefix, config_.broker.rabbitmq.queue_type, *state);
    for (const rabbit::SettingFinding& one : found) {
      out_.add(one.harm == rabbit::Harm::fatal ? "wrong" : "warn", "settings." + one.subject, one.what,
               one.mend);
    }
    if (found.empty())
      out_.ok("settings",
              "no policy, argument or binding harms Rung's own queues and exchanges (the management API "
              "shows a new policy after 5 s)");
  }

  // A classic queue is on a single node of a cluster.
  void check_queue_type() {
    const std::size_t nodes = rabbit::cluster_nodes(config_.broker, vhost()->queues, kDoctorTimeout).size();
    if (nodes < 2) return;
    std::string type = config_.broker.rabbitmq.queue_type;
    if (type == "auto") type = inlet_type();
    if (type.empty()) return;  // the broker's version decides, at the first start
    const std::string cluster = "RabbitMQ is a cluster of " + std::to_string(nodes) + " nodes";
    if (type == "quorum")
      return out_.ok("broker.queue_type", cluster + ", and Rung's own queues are quorum queues");
    out_.warn("broker.queue_type",
              cluster +
                  ", and Rung's own queues are classic queues: each is on one node, and "
                  "Rung receives nothing from it while that node is down",
              "set broker.queue_type: quorum, and stop the sidecars when the queues are empty: the next "
              "start declares them anew (docs/broker-settings.md)");
  }

  // A line for each pattern, and the findings of those of its queues that need something.
  void check_patterns() {
    const auto matched = matched_queues(config_, vhost()->queues);
    for (const RuleBook::PatternRules& entry : config_.rules->patterns()) {
      const std::string& pattern = entry.pattern.text();
      const std::string name = "queue." + pattern;
      const auto its = matched.find(pattern);
      if (its == matched.end()) {
        out_.warn(name, "no queue matches this pattern (in the config)",
                  "see rung attached for the names of the queues");
        continue;
      }
      const bool fine = check_each(
          pattern, its->second, [this](const std::string& queue, Findings& out) { check_queue(queue, out); });
      out_.ok(name, std::to_string(its->second.size()) + " queues match" + (fine ? ", all attached" : ""));
    }
  }

  // ---------------------------------------------------------------------------------------- error_queues

  // Whether they exist and can be read, and where their messages go back to.
  void check_error_queues() {
    if (probe_ == nullptr) return out_.skip("error_queues", "not connected to the broker");
    for (const ErrorQueue& entry : config_.broker.error_queues->all()) {
      if (entry.is_pattern()) {
        check_error_pattern(entry);
      } else if (check_error_queue(entry, entry.from)) {
        out_.ok("error_queue." + entry.from, "exists and can be read; dialect " + entry.dialect->name + ", " +
                                                 destination(entry, entry.from));
      }
    }
  }

  static std::string destination(const ErrorQueue& entry, const std::string& queue) {
    if (!entry.retries) return "its messages are parked";
    const std::string to = target_by_name(entry, queue);
    return "its messages go back to " + (to.empty() ? "the queue that each message names" : "'" + to + "'");
  }

  // True: nothing is wrong with it.
  bool check_error_queue(const ErrorQueue& entry, const std::string& queue) {
    const std::string name = "error_queue." + queue;
    if (is_missing(probe_->queue_exists(queue))) {
      out_.warn(
          name, "no such queue: '" + queue + "'",
          "correct error_queues, or do nothing: Rung consumes it within 5 seconds after it is declared");
      return false;
    }
    if (const auto read = probe_->may_consume(queue); !read) {
      out_.wrong(name, "it cannot be read: " + read.error().message,
                 "add it to the user's read pattern: docs/permissions.md");
      return false;
    }
    // What only the management API knows.
    const QueueFacts* facts = vhost() ? vhost()->find(queue) : nullptr;
    if (const std::string why = facts == nullptr ? "" : rabbit::unfit(*facts); !why.empty()) {
      out_.wrong(name, why, "declare it anew, or remove it from error_queues");
      return false;
    }
    const std::string to = target_by_name(entry, queue);
    if (to.empty() || !entry.retries || !is_missing(probe_->queue_exists(to))) return true;
    out_.warn(name, "its messages go back to '" + to + "', which does not exist: they would be parked",
              "declare '" + to + "', or set error_queues.to");
    return false;
  }

  void check_error_pattern(const ErrorQueue& entry) {
    const std::string name = "error_queue." + entry.from;
    if (!vhost())
      return out_.warn(name, "the queues that match cannot be listed: " + vhost().error().message,
                       "rabbitmq-plugins enable rabbitmq_management, or name each queue in error_queues");
    std::string fine;
    bool any = false;
    for (const QueueFacts& queue : vhost()->queues) {
      if (!rabbit::may_match(config_.broker, queue) ||
          config_.broker.error_queues->find(queue.name) != &entry)
        continue;
      any = true;
      if (check_error_queue(entry, queue.name)) fine += (fine.empty() ? "" : ", ") + queue.name;
    }
    if (!any)
      out_.warn(name, "no queue matches this pattern",
                "correct error_queues, or do nothing: Rung looks for new queues every minute");
    if (!fine.empty()) out_.ok(name, "matches queues that can be read: " + fine);
  }

  const Config& config_;
  const Clock& clock_;
  const Url url_;
  std::string user_;
  const std::string vhost_;
  Findings& out_;
  rabbit::Probe* probe_ = nullptr;  // not connected
  Result<std::unique_ptr<rabbit::QueueAdmin>> admin_;
  std::optional<Result<rabbit::Vhost>> seen_;
};

}  // namespace

std::unique_ptr<rabbit::Probe> check_broker(const Config& config, const Clock& clock, Findings& out) {
  const auto url = parse_url(config.broker.url);
  if (url) return BrokerCheck(config, clock, *url, out).run();
  out.wrong("broker.login", "broker.url: " + url.error().message, "correct broker.url");
  return nullptr;
}

}  // namespace rung::cli
