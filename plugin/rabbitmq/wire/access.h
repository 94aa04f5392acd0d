// What a connection needs besides an address, shared by all connections of a broker: password and TLS files,
// which are read anew for each login, because they are replaced while the program runs; and which broker may
// be served at all. Thread: any; login() and tls() read files.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/wire/wire.h"
#include "src/core/base/addresses.h"
#include "src/core/base/clock.h"
#include "src/core/base/result.h"
#include "src/core/base/url.h"

namespace rung::rabbit {

class Access {
 public:
  // REQUIRES: `options` outlives it.
  Access(const BrokerOptions& options, bool tls) : options_(options), tls_(tls) {}

  bool uses_tls() const { return tls_; }
  // nullptr: amqp://. Errors: as Tls::load().
  Result<std::shared_ptr<Tls>> tls() const;
  // The URL with today's password. Error: refused, the password file cannot be read.
  Result<Url> login(Url url) const;

  // Broker::serve_only(). "" = any.
  void serve_only(std::string cluster);
  // Grows with each change, so that it is cheap to notice one.
  std::uint32_t version() const { return version_.load(std::memory_order_acquire); }
  // Error: this broker must not be served.
  Result<void> accepts(const std::string& cluster, const std::string& address) const;

 private:
  const BrokerOptions& options_;
  const bool tls_;
  std::atomic<std::uint32_t> version_{0};
  mutable std::mutex mutex_;
  std::string served_;  // guarded by mutex_
};

inline int usual_port(bool tls) { return tls ? 5671 : 5672; }

// The broker's addresses, and what a login to them needs.
struct BrokerEndpoints {
  std::unique_ptr<Addresses> addresses;
  std::unique_ptr<Access> access;
};
// Reads the URLs, and once the TLS files; does not look up host names.
// Permanent errors: a URL that is not a broker's, addresses of which only some use TLS, a missing file.
// REQUIRES: `options` and `clock` outlive what it returns.
Result<BrokerEndpoints> make_endpoints(const BrokerOptions& options, const Clock& clock);

// The URL with the password of broker.password_file, if the config names one. Error: refused.
Result<Url> with_password(const BrokerOptions& options, Url url);

}  // namespace rung::rabbit
