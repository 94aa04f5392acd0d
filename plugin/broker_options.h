// What a broker is made with (brokers.h). What only one plugin understands stands in a struct of its own.
// Thread: a value.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "plugin/rabbitmq/options.h"
#include "src/core/time.h"

namespace rung {

struct BrokerOptions {
  std::string url;  // its scheme chooses the plugin: amqp:// or amqps://user:password@host:port/vhost
  // Further addresses of the same broker, e.g. nodes of a cluster: the same scheme and path.
  std::vector<std::string> other_urls;
  std::string prefix = "rung";  // of every name that Rung declares
  // TLS: files; the host's name is checked against the certificate.
  std::string ca, cert, key;
  bool verify_host = true;
  int prefetch = 1000;  // unacked messages taken in at a time
  // Bodies of unacked messages held at a time, in bytes. Beyond it they are let go of, stay unacked, and are
  // asked for again once half of it is free: the prefetch counts messages, and 1,000 of 16 MB are 16 GB.
  std::size_t max_intake_bytes = 64UL * 1024 * 1024;
  int max_unconfirmed = 2000;  // publishes on their way at a time
  // A connection that was silent for three of these is dead, for us and for the broker. So long an instance
  // that takes over waits with what the former owner may still be publishing.
  Ms heartbeat{std::chrono::seconds{10}};
  bool consume_delay = false;  // take Inlet::delay in, too; declared in any case
  std::string connection_name = "rung";

  rabbit::Options rabbitmq;
};

}  // namespace rung
