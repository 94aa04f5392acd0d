#include "plugin/brokers.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "plugin/rabbitmq/wire/broker_headers.h"
#include "src/core/base/url.h"

namespace rung {
namespace {

struct Plugin {
  std::string_view scheme;
  std::unique_ptr<Broker> (*make)(BrokerOptions options, const Clock& clock);
  ReservedHeaders (*reserved)();
};
constexpr std::array<Plugin, 2> kPlugins = {{{"amqp", make_rabbit_broker, rabbit::reserved_headers},
                                             {"amqps", make_rabbit_broker, rabbit::reserved_headers}}};

const Plugin* plugin_of(const std::string& scheme) {
  const auto found = std::ranges::find(kPlugins, scheme, &Plugin::scheme);
  return found != kPlugins.end() ? &*found : nullptr;
}

std::string known_schemes() {
  std::string out;
  for (const Plugin& plugin : kPlugins) out.append(out.empty() ? "" : ", ").append(plugin.scheme) += "://";
  return out;
}

}  // namespace

Result<std::unique_ptr<Broker>> make_broker(BrokerOptions options, const Clock& clock) {
  const auto url = parse_url(options.url);
  if (!url) return permanent("broker.url: " + url.error().message);
  const Plugin* plugin = plugin_of(url->scheme);
  if (plugin == nullptr)
    return permanent("broker.url: unsupported scheme \"" + url->scheme +
                     "://\"; supported: " + known_schemes());
  return plugin->make(std::move(options), clock);
}

ReservedHeaders reserved_headers(const BrokerOptions& options) {
  const auto url = parse_url(options.url);
  const Plugin* plugin = url ? plugin_of(url->scheme) : nullptr;
  return plugin != nullptr ? plugin->reserved() : ReservedHeaders{};
}

BrokerFacts stored_facts(Message& message) { return rabbit::take_broker_headers(message, Inlet::failed); }

}  // namespace rung
