// A port that never sends anything. Thread: one at a time.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

namespace rung::test {

class SilentPort {
 public:
  // answers_syn: the kernel accepts connections, but no data ever arrives. Otherwise the backlog is full, and
  // a SYN gets no answer, as if the host were down.
  enum class Kind { answers_syn, answers_nothing };

  explicit SilentPort(Kind kind) : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, raw, size) != 0 || listen(listener_, kind == Kind::answers_syn ? 100 : 0) != 0)
      throw std::runtime_error("SilentPort: bind");
    getsockname(listener_, raw, &size);
    port_ = ntohs(address.sin_port);
    for (int i = 0; kind == Kind::answers_nothing && i < 8; ++i) {
      fillers_.push_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
      (void)connect(fillers_.back(), raw, size);
    }
  }
  ~SilentPort() {
    for (const int fd : fillers_) close(fd);
    close(listener_);
  }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;

  int port() const { return port_; }

 private:
  const int listener_;
  int port_ = 0;
  std::vector<int> fillers_;
};

}  // namespace rung::test
