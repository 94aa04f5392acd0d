// Checks of the broker, over AMQP and over the management API.
#include <fmt/format.h>
#include <unistd.h>

#include <map>
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
    if (!config_.broker.other_urls.empty()) check_addresses();
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
      const std::string where =
          config_.broker.other_urls.empty() ? url_.host_port(5672) : "any of broker.urls";
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
  // use. And whether somebody reads them.
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
  const Url url_ = need(parse_url(config_.broker.url));
  std::string user_ = user_of(url_);
  const std::string vhost_ = url_.vhost();
  rabbit::Probe* probe_ = nullptr;  // not connected
  Result<rabbit::Vhost> seen_;      // error: the management API does not tell
};

}  // namespace

std::unique_ptr<rabbit::Probe> check_broker(const Config& config, const Clock& clock, Findings& out) {
  return BrokerCheck(config, clock, out).run();
}

}  // namespace rung::cli
