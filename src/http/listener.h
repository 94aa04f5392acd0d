// A socket that listens. Thread: any.
#pragma once

#include <string>

#include "src/core/result.h"

struct sockaddr_storage;

namespace rung::http {

struct Listener {
  int fd = -1;
  int port = 0;
  bool loopback = false;  // nobody but this machine reaches it
};

// Non-blocking. The error names the address.
Result<Listener> listen_on(const std::string& host, int port);

// "10.0.0.3"; what came by IPv4 to an IPv6 socket too.
std::string address_of(const sockaddr_storage& address);

}  // namespace rung::http
