#include "plugin/brokers.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "plugin/rabbitmq/rabbit_broker.h"
#include "src/core/url.h"

namespace rung {
namespace {

struct Plugin {
  std::string_view scheme;
  std::unique_ptr<Broker> (*make)(BrokerOptions options, const Clock& clock);
};
constexpr std::array<Plugin, 2> kPlugins = {{{"amqp", make_rabbit_broker}, {"amqps", make_rabbit_broker}}};

std::string known_schemes() {
  std::string out;
  for (const Plugin& plugin : kPlugins) out.append(out.empty() ? "" : ", ").append(plugin.scheme) += "://";
  return out;
}

}  // namespace

Result<std::unique_ptr<Broker>> make_broker(BrokerOptions options, const Clock& clock) {
  const auto url = parse_url(options.url);
  if (!url) return permanent("broker.url: " + url.error().message);
  const auto plugin = std::ranges::find(kPlugins, url->scheme, &Plugin::scheme);
  if (plugin == kPlugins.end())
    return permanent("broker.url: no broker is known for \"" + url->scheme +
                     "://\"; known are: " + known_schemes());
  return plugin->make(std::move(options), clock);
}

}  // namespace rung
