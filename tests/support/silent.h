// A port that never sends anything. Thread: one at a time.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace rung::test {

class SilentPort {
 public:
  // The kernel accepts connections, but no data ever arrives.
  SilentPort() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, raw, size) != 0 || listen(listener_, 100) != 0)
      throw std::runtime_error("SilentPort: bind");
    getsockname(listener_, raw, &size);
    port_ = ntohs(address.sin_port);
  }
  ~SilentPort() { close(listener_); }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  int port() const { return port_; }

 private:
  const int listener_;
  int port_ = 0;
};

}  // namespace rung::test
