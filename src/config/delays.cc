// Exchanges whose messages are delayed: from one that Rung declares to one that it only publishes to, and
// never in a circle.
#include "src/config/draft.h"

namespace rung::confile {

std::string own_prefix(const Config& config, std::string_view name) {
  const std::string own = config.broker.prefix + ".";
  return own.size() > 1 && name.starts_with(own) ? own : config.groups.own_prefix(name);
}

void complete_delays(Draft& draft, Problems& problems) {
  Config& config = draft.config;
  for (std::size_t i = 0; i < draft.delays.size(); ++i) {
    const DelayDraft& one = draft.delays[i];
    if (one.broken) continue;
    const std::string path = "delays[" + std::to_string(i + 1) + "]";
    if (!one.from || !one.to) {
      problems.add(one.mark, path + ": " + (one.from ? "to" : "from") +
                                 " is missing: write { from: EXCHANGE, to: EXCHANGE }");
    } else if (one.from->starts_with("amq.")) {
      problems.add(one.from_mark, path + ".from: exchanges that begin with amq. are the broker's own");
    } else if (const std::string own = own_prefix(config, *one.from); !own.empty()) {
      problems.add(one.from_mark, path + ".from: exchanges that begin with " + own + " are Rung's own");
    } else if (*one.from == *one.to) {
      problems.add(one.to_mark,
                   path + ".to: it is the exchange that it comes from: the message would go round");
    } else if (const std::string prefix = own_prefix(config, *one.to); !prefix.empty()) {
      problems.add(one.to_mark, path + ".to: exchanges that begin with " + prefix + " are Rung's own");
    } else if (config.groups.empty() ? one.group.has_value()
                                     : !one.group || config.groups.find(*one.group) == nullptr) {
      problems.add(one.group ? one.group_mark : one.mark,
                   path + ".group: " +
                       (config.groups.empty()
                            ? "the config has no groups: leave it out"
                            : "one group takes these messages in, write its name: " + config.groups.names()));
    } else if (!config.delays.emplace(*one.from, *one.to).second) {
      problems.add(one.from_mark, path + ".from: given twice");
    }
  }
  for (std::size_t i = 0; i < draft.delays.size(); ++i) {
    const DelayDraft& one = draft.delays[i];
    if (one.from && one.to && *one.from != *one.to && config.delays.contains(*one.to))
      problems.add(one.to_mark, "delays[" + std::to_string(i + 1) +
                                    "].to: it is the from of another: write where it shall end up");
  }
  for (const DelayDraft& one : draft.delays) {
    if (one.from && one.group && !config.groups.own.empty() && *one.group != config.groups.own)
      config.delays.erase(*one.from);
  }
  for (const auto& [from, to] : config.delays) config.broker.rabbitmq.delay_exchanges.push_back(from);
  config.broker.consume_delay = true;
}

}  // namespace rung::confile
