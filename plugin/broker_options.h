// The options of a broker. Those that only RabbitMQ understands have a struct of their own.
// Thread: a value.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/core/base/time.h"
#include "src/core/base/url.h"
#include "src/core/rules/dialect.h"

namespace rung {

namespace rabbit {
// Config keys: broker.NAME.
struct Options {
  // Of the queues that Rung declares: classic, quorum, or auto: what the broker's nodes suggest
  // (topology.h). A queue of either type stays as it is.
  std::string queue_type = "auto";
  // Exchanges declared in addition to <prefix>.delay, to which their messages go: delays.*.from of the
  // config.
  std::vector<std::string> delay_exchanges;
  Ms topology_check{std::chrono::seconds{30}};  // how often the topology is checked and repaired
  std::optional<Url> management;  // of the management API; none: port 15672 of the broker's hosts
};
}  // namespace rabbit

struct BrokerOptions {
  std::vector<Url> urls;  // amqp or amqps: the addresses of one broker, e.g. cluster nodes
  // Read anew for each login; its first line takes the place of the password in the URLs. "" = none.
  std::string password_file;
  std::string prefix = "rung";              // of every name that Rung declares
  std::vector<std::string> group_prefixes;  // of all groups of the config: patterns skip their queues
  // TLS: files; the host's name is checked against the certificate.
  std::string ca, cert, key;
  bool verify_host = true;
  int prefetch = 1000;  // maximum number of unacked messages
  // Maximum bytes of unacked messages in memory, bodies and headers. Messages beyond it are dropped, stay
  // unacked, and are requested again once half of it is free: the prefetch counts messages, and 1,000 of 16
  // MB are 16 GB.
  std::size_t max_intake_bytes = 64UL * 1024 * 1024;
  int max_unconfirmed = 2000;  // publishes in flight at a time
  // We and the broker consider a connection dead after three silent heartbeats. After a takeover, an instance
  // waits that long before it sends what the former owner may still be publishing.
  Ms heartbeat{std::chrono::seconds{10}};
  ErrorQueuesPtr error_queues = std::make_shared<const ErrorQueues>();
  std::string connection_name = "rung";

  rabbit::Options rabbitmq;

  std::string vhost() const { return urls.empty() ? "/" : urls.front().vhost(); }
};

class Broker;
class Clock;

// Connects nothing before start(), which also tells what is wrong with the options. Thread: any. REQUIRES:
// `clock` outlives the broker.
std::unique_ptr<Broker> make_rabbit_broker(BrokerOptions options, const Clock& clock);

}  // namespace rung
