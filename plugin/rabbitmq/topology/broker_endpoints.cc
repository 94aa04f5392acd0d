#include "plugin/rabbitmq/topology/broker_endpoints.h"

#include <utility>

#include "plugin/rabbitmq/wire/connection.h"

namespace rung::rabbit {

Result<BrokerEndpoints> make_endpoints(const BrokerOptions& options, const Clock& clock) {
  auto urls = parse_urls(options.url, options.other_urls);
  if (!urls) return permanent("broker.url: " + urls.error().message);
  const std::string& scheme = urls->front().scheme;
  if (scheme != "amqp" && scheme != "amqps")
    return permanent("broker.url: unsupported scheme \"" + scheme + "\": use amqp:// or amqps://");
  for (const Url& url : *urls) {
    if (url.scheme != scheme) return permanent("broker.urls: all must begin with " + scheme + "://");
  }
  BrokerEndpoints endpoints;
  const bool tls = scheme == "amqps";
  endpoints.access = std::make_unique<Access>(options, tls);
  if (auto loaded = endpoints.access->tls(); !loaded) return tl::unexpected(loaded.error());
  endpoints.addresses =
      std::make_unique<Addresses>(*std::move(urls), usual_port(tls), Addresses::Order::shuffled, clock);
  return endpoints;
}

}  // namespace rung::rabbit
