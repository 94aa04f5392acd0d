// A client that sends a request in pieces and reads the response as it arrives. Thread: one at a time.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>

namespace rung::test {

class SlowClient {
 public:
  // `from`: the client's address, one of 127.0.0.0/8.
  explicit SlowClient(int port, std::uint32_t from = INADDR_LOOPBACK)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in mine{};
    mine.sin_family = AF_INET;
    mine.sin_addr.s_addr = htonl(from);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&mine), sizeof mine), 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    const timeval most{120, 0};  // 24 bodies of 8 MB are parsed at once, on a busy machine
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  }
  ~SlowClient() { close(fd_); }
  SlowClient(const SlowClient&) = delete;
  SlowClient& operator=(const SlowClient&) = delete;
  void send(const std::string& text) const {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Reads until the other side closes, or `end` was received.
  std::string rest(const std::optional<std::string>& end = {}) const {
    std::string out;
    char piece[4096];
    for (ssize_t n = 0; (n = recv(fd_, piece, sizeof piece, 0)) > 0;) {
      out.append(piece, static_cast<std::size_t>(n));
      if (end && out.find(*end) != std::string::npos) break;
    }
    return out;
  }
  // Whether something was received, or the other side has closed.
  bool heard() const {
    pollfd p{fd_, POLLIN, 0};
    return poll(&p, 1, 0) > 0;
  }

 private:
  const int fd_;
};

}  // namespace rung::test
