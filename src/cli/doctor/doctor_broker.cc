// Checks over AMQP: login, virtual host, permissions, exchanges and queues.
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "plugin/rabbitmq/topology/attachment.h"
#include "plugin/rabbitmq/topology/probe.h"
#include "plugin/rabbitmq/topology/return_route.h"
#include "src/cli/attach/attach_run.h"
#include "src/cli/doctor/doctor.h"
#include "src/core/base/url.h"

namespace rung::cli {
namespace {

using rabbit::shell_quote;

struct Broker {
  const Config& config;
  Url url;
  std::string user, vhost;

  std::string where() const {
    return config.broker.other_urls.empty() ? url.host_port(5672) : "any of broker.urls";
  }
  // A name for what is declared and published for a check.
  std::string temporary() const { return config.broker.prefix + ".doctor-" + std::to_string(getpid()); }
  // As in docs/permissions.md.
  std::string grant() const {
    std::string own = "^";
    for (const char c : config.broker.prefix) own += c == '.' ? std::string("\\.") : std::string(1, c);
    own += "\\.";
    return "rabbitmqctl set_permissions -p " + shell_quote(vhost) + " " + shell_quote(user) + " " +
           shell_quote(own) + " " + shell_quote(".*") + " " + shell_quote(own) + " (docs/permissions.md)";
  }
};

std::string user_of(const Url& url) { return url.user.empty() ? "guest" : url.user; }

bool contains(const Error& error, std::string_view text) {
  return error.message.find(text) != std::string::npos;
}

// Why the connection failed, and how to fix it.
Findings connection_findings(const Broker& b, const Error& error) {
  Findings all;
  const bool reached = contains(error, "vhost");
  if (contains(error, "Login was refused") || contains(error, "ACCESS_REFUSED - Login")) {
    all.push_back(wrong(
        "broker.login", "the broker rejected user '" + b.user + "': wrong password or unknown user",
        "correct broker.url, or run: rabbitmqctl change_password " + shell_quote(b.user) + " PASSWORD"));
  } else if (reached) {
    all.push_back(good("broker.login", "user '" + b.user + "' at " + b.url.host_port(5672)));
    const bool missing = contains(error, "not found");
    all.push_back(wrong("broker.vhost",
                        missing ? "no such virtual host: '" + b.vhost + "'"
                                : "user '" + b.user + "' has no access to virtual host '" + b.vhost + "'",
                        missing ? "correct the virtual host in broker.url, or run: rabbitmqctl add_vhost " +
                                      shell_quote(b.vhost)
                                : b.grant()));
  } else {
    all.push_back(unreachable("broker.login", "cannot connect to " + b.where() + ": " + error.message,
                              "start RabbitMQ, or correct host and port of broker.url"));
  }
  for (const char* name : {"broker.vhost", "broker.permissions", "broker.topology"}) {
    if (!(reached && std::string_view(name) == "broker.vhost")) all.push_back(skipped(name, "not connected"));
  }
  return all;
}

// If there are several addresses: whether each is reachable. `serving`: the one that the other checks use.
Findings check_addresses(const Config& config, const Clock& clock, const std::string& serving) {
  Findings all;
  if (config.broker.other_urls.empty()) return all;
  const auto addresses = rabbit::look_at_addresses(config.broker, clock, Addresses::kSlice);
  std::set<std::string> clusters;
  std::string where;
  for (const rabbit::AddressFacts& one : addresses) {
    if (!one.error.message.empty()) {
      all.push_back(warning("broker.address", one.address + " is unavailable: " + one.error.message,
                            "start RabbitMQ there, or correct broker.urls"));
      continue;
    }
    all.push_back(good("broker.address", one.address + (one.address == serving ? " is reachable and in use"
                                                                               : " is reachable")));
    if (clusters.insert(one.cluster).second)
      where += (where.empty() ? "" : ", ") + one.address + " of '" + one.cluster + "'";
  }
  if (clusters.size() > 1) {
    all.push_back(wrong("broker.cluster",
                        "the addresses belong to different brokers, which do not share queues: " + where,
                        "list only the nodes of one cluster in broker.urls"));
  }
  return all;
}

Finding permission(const Broker& b, const char* name, const std::string& action, const Result<void>& done) {
  if (done) return good(name, "user '" + b.user + "' is allowed to " + action);
  return wrong(name, "user '" + b.user + "' is not allowed to " + action + ": " + done.error().message,
               b.grant());
}

Findings check_permissions(const Broker& b, rabbit::Probe& probe) {
  Findings all;
  const auto add_permission = [&](const char* name, const std::string& action, const Result<void>& done) {
    all.push_back(permission(b, name, action, done));
    return done.has_value();
  };
  const std::string temporary = b.temporary();
  const std::string own = "names that begin with " + b.config.broker.prefix + ".";
  const bool declared = add_permission("broker.configure", "declare " + own, probe.may_declare(temporary));
  if (declared) {
    add_permission("broker.read", "read from " + own, probe.may_read(temporary));
  } else {
    all.push_back(skipped("broker.read", "no queue could be declared to read from"));
  }
  const std::string failed = rabbit::failed_exchange(b.config.broker.prefix);
  auto bind = probe.may_bind(failed, failed);
  if (!bind && bind.error().kind == Error::Kind::not_found) {
    all.push_back(skipped("broker.write", failed + " does not exist yet"));
  } else {
    add_permission("broker.write", "bind " + own, bind);
  }
  return all;
}

// Last: during an alarm the probe's connection is of no use after it.
Findings check_publishing(const Broker& b, rabbit::Probe& probe) {
  const auto done = probe.may_publish("", b.temporary() + "-none");
  if (done || probe.blocked().empty())
    return {permission(b, "broker.write_queues", "publish to queues (exchange amq.default)", done)};
  return {wrong("broker.alarm", "RabbitMQ blocks publishers: " + probe.blocked(),
                "free memory or disk on its nodes; rabbitmqctl status shows the alarms"),
          skipped("broker.write_queues", "RabbitMQ blocks publishers")};
}

Findings check_topology(const Broker& b, rabbit::Probe& probe) {
  Findings all;
  std::string missing;
  for (const char* end : {".failed", ".delay", ".results", ".parked"}) {
    const std::string name = b.config.broker.prefix + end;
    auto exchange = probe.exchange_exists(name);
    auto queue = probe.queue_exists(name);
    for (const auto* done : {&exchange, &queue}) {
      if (*done) continue;
      if (done->error().kind == Error::Kind::not_found) {
        if (missing.find(name) == std::string::npos) missing += (missing.empty() ? "" : ", ") + name;
      } else {
        all.push_back(
            wrong("broker.topology", name + " cannot be checked: " + done->error().message, b.grant()));
      }
    }
  }
  const std::string to_return = rabbit::return_exchange(b.config.broker.prefix);
  if (auto there = probe.exchange_exists(to_return); !there)
    missing += (missing.empty() ? "" : ", ") + to_return;
  if (!missing.empty()) {
    all.push_back(warning("broker.topology", "missing exchanges or queues: " + missing,
                          "rung run declares them at start"));
  } else if (all.empty()) {
    all.push_back(
        good("broker.topology", "all exchanges and queues of prefix " + b.config.broker.prefix + " exist"));
  }
  for (const auto& [from, to] : b.config.delays) {
    for (const std::string& name : {from, to}) {
      auto there = probe.exchange_exists(name);
      if (!there)
        all.push_back(warning("broker.delays", "exchange '" + name + "' of delays: " + there.error().message,
                              name == from ? "rung run declares it at start" : "declare it"));
    }
  }
  return all;
}

// Whether retries of the config's queues can keep their routing key: the sidecar binds each queue to
// <prefix>.return on first use.
Finding check_routing_key(const Broker& b, rabbit::Probe& probe, const std::string& queue) {
  const std::string exchange = rabbit::return_exchange(b.config.broker.prefix);
  const std::string name = "queue." + queue + ".routing_key";
  // RabbitMQ 4.3 refuses even this check without permissions; then the attempt to bind says which are
  // missing.
  const auto missing = [](const Result<void>& there) {
    return !there && there.error().kind == Error::Kind::not_found;
  };
  if (missing(probe.queue_exists(queue)) || missing(probe.exchange_exists(exchange)))
    return skipped(name, "the queue or " + exchange + " does not exist yet");
  const auto bind = probe.may_bind(queue, exchange);
  if (bind) return good(name, "retries keep their routing key, through exchange " + exchange);
  return warning(name,
                 "retries lose their routing key: user '" + b.user + "' is not allowed to bind it to " +
                     exchange + ": " + bind.error().message,
                 b.grant());
}

Findings check_routing_keys(const Broker& b, QueueList& list, rabbit::Probe& probe) {
  Findings all;
  for (const auto& [queue, rules] : b.config.rules->queues()) {
    all.push_back(check_routing_key(b, probe, queue));
    if (const auto depth = probe.depth(queue); depth && depth->consumers == 0 && depth->ready > 0)
      all.push_back(
          warning("queue." + queue + ".consumer",
                  "it has no consumer, and " + std::to_string(depth->ready) + " messages wait in it",
                  "start its consumer; until it has read them, silence does not count"));
  }
  if (b.config.rules->patterns().empty()) return all;
  const auto& queues = list.get();
  if (!queues) return all;  // check_management says why
  // A line for each pattern, and those of its queues that need something.
  for (const auto& [pattern, names] : matched_queues(b.config, *queues)) {
    Findings each;
    for (const std::string& queue : names) each.push_back(check_routing_key(b, probe, queue));
    std::erase_if(each, [](const Finding& finding) { return finding.status == Finding::Status::ok; });
    if (each.empty())
      all.push_back(good("queue." + pattern + ".routing_key",
                         "retries of " + std::to_string(names.size()) + " queues keep their routing key"));
    each.resize(std::min(each.size(), kMostOfPattern));
    std::ranges::move(each, std::back_inserter(all));
  }
  return all;
}

}  // namespace

Findings check_broker(const Config& config, QueueList& list, const Clock& clock) {
  const auto url = parse_url(config.broker.url);
  if (!url) return {wrong("broker.login", "broker.url: " + url.error().message, "correct broker.url")};
  Broker b{config, *url, user_of(*url), url->vhost()};
  auto probe = rabbit::Probe::open(config.broker, clock, kDoctorTimeout);
  if (!probe) {
    Findings all = check_addresses(config, clock, "");
    const Findings why = connection_findings(b, probe.error());
    all.insert(all.end(), why.begin(), why.end());
    return all;
  }
  const std::string serving = (*probe)->address().shown;
  b.user = user_of((*probe)->address().url);
  Findings all = {good("broker.login", "user '" + b.user + "' at " + serving),
                  good("broker.vhost", "virtual host '" + b.vhost + "'")};
  for (const Findings& part :
       {check_addresses(config, clock, serving), check_permissions(b, **probe), check_topology(b, **probe),
        check_routing_keys(b, list, **probe), check_publishing(b, **probe)})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace rung::cli
