#include "src/cli/run/run_settings.h"

#include <unistd.h>

#include <random>
#include <utility>

#include "src/api/tasks/event_body.h"
#include "src/io/log.h"

namespace rung::cli {
namespace {

std::string host_and_pid() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(getpid());
}

std::string without_passwords(const std::string& first, const std::vector<std::string>& others) {
  std::string out = without_password(first);
  for (const std::string& url : others) out += ", " + without_password(url);
  return out;
}

void log_rules(const Config& config, std::string_view what, const std::string& queue,
               const QueueRules& rules) {
  const levels::Ladder* ladder = config.rules->ladder(rules.ladder);
  log::info(what, {{"queue", queue},
                   {"ladder", rules.ladder},
                   {"levels", ladder != nullptr ? ladder->levels() : 0},
                   {"silence", rules.silence.means == Silence::Means::success ? "success" : "failure"},
                   {"after", levels::format_duration(rules.silence.after)}});
}

}  // namespace

bridge::BridgeSettings bridge_settings(const Config& config, bridge::Tracer* tracer) {
  bridge::BridgeSettings s;
  s.identity = {config.node, RUNG_VERSION, host_and_pid(), std::random_device{}()};
  s.identity.incarnation = (s.identity.incarnation << 31) | (std::random_device{}() >> 1);
  s.lease = config.lease;
  s.window = config.window;
  s.max_loaded = static_cast<std::size_t>(config.max_loaded);
  s.heartbeat = config.broker.heartbeat;
  s.max_unconfirmed = config.broker.max_unconfirmed;
  s.prefix = config.broker.prefix;
  s.delays = config.delays;
  s.retention = config.retention;
  s.require_token = config.require_token;
  s.tracer = tracer;
  if (!config.store.events.empty()) s.event_body = api::event_body;
  return s;
}

void log_settings(const Config& config) {
  log::info("rung starting", {{"version", RUNG_VERSION},
                              {"node", config.node},
                              {"broker", without_passwords(config.broker.url, config.broker.other_urls)},
                              {"database", without_passwords(config.store.url, config.store.other_urls)},
                              {"lease", levels::format_duration(config.lease)},
                              {"window", levels::format_duration(config.window)},
                              {"retention", config.retention ? levels::format_duration(*config.retention)
                                                             : std::string("off")}});
  const QueueGroups& groups = config.groups;
  if (!groups.empty()) {
    std::string queues;
    for (const std::string& name : groups.find(groups.own)->queues)
      queues += (queues.empty() ? "" : ", ") + name;
    log::info("group",
              {{"group", groups.own}, {"prefix", config.broker.prefix}, {"queues", std::move(queues)}});
  }
  for (const auto& [name, rules] : config.rules->queues()) {
    if (groups.elsewhere(name) == nullptr) log_rules(config, "queue", name, rules);
  }
  for (const RuleBook::PatternRules& entry : config.rules->patterns())
    log_rules(config, "queues by pattern", entry.pattern.text(), entry.rules);
  log_rules(config, "other queues", "(any other)", config.rules->defaults());
  if (config.rules->queues().empty() && config.rules->patterns().empty())
    log::info("no queues in the config: every message uses the rules in defaults");
  for (const auto& [from, to] : config.delays) log::info("delayed exchange", {{"from", from}, {"to", to}});
  if (!config.rules->targets().allow) {
    log::warn(
        "headers may name any queue or exchange as a message's target: restrict them with "
        "broker.targets.allow",
        {{"never", config.rules->targets().own + "*, amq.*"}});
  }
}

}  // namespace rung::cli
