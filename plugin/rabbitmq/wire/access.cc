#include "plugin/rabbitmq/wire/access.h"

#include <utility>

#include "src/core/base/secret_file.h"

namespace rung::rabbit {

Result<Url> with_password(const BrokerOptions& options, Url url) {
  if (options.password_file.empty()) return url;
  auto password = read_password_file(options.password_file);
  if (!password) {
    return tl::unexpected(Error{Error::Kind::refused, "broker.password_file (" + options.password_file +
                                                          "): " + password.error().message});
  }
  url.password = *std::move(password);
  return url;
}

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

Result<std::shared_ptr<Tls>> Access::tls() const {
  if (!tls_) return std::shared_ptr<Tls>();
  return Tls::load(options_);
}

Result<Url> Access::login(Url url) const { return with_password(options_, std::move(url)); }

void Access::serve_only(std::string cluster) {
  const std::lock_guard lock(mutex_);
  if (served_ == cluster) return;
  served_ = std::move(cluster);
  version_.fetch_add(1, std::memory_order_acq_rel);
}

Result<void> Access::accepts(const std::string& cluster, const std::string& address) const {
  const std::lock_guard lock(mutex_);
  if (served_.empty() || served_ == cluster) return {};
  return transient(address + " is broker '" + cluster + "', but this database serves broker '" + served_ +
                   "' (docs/operations.md)");
}

}  // namespace rung::rabbit
