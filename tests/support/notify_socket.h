// The service manager's end of sd_notify: a datagram socket, and what has arrived in it. Thread: one.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rung::test {

class NotifySocket {
 public:
  // Sets $NOTIFY_SOCKET, which processes that are started from now on inherit.
  NotifySocket() {
    std::string folder = (std::filesystem::temp_directory_path() / "rung-notify.XXXXXX").string();
    if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("mkdtemp " + folder);
    folder_ = folder;
    const std::string path = folder + "/socket";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("bind " + path);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~NotifySocket() {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) unsetenv(name);
    close(socket_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;

  // Every message so far, in order.
  const std::vector<std::string>& messages() {
    char buffer[4096];
    for (ssize_t n = 0; (n = recv(socket_, buffer, sizeof buffer, 0)) >= 0;)
      messages_.emplace_back(buffer, static_cast<std::size_t>(n));
    return messages_;
  }
  // How many of them have a line that begins with `start`.
  std::size_t count(std::string_view start) {
    std::size_t found = 0;
    for (const std::string& message : messages()) {
      if (("\n" + message).find("\n" + std::string(start)) != std::string::npos) ++found;
    }
    return found;
  }
  // All of them, for the text of a failed test.
  std::string all() {
    std::string text;
    for (const std::string& message : messages()) text += "[" + message + "]\n";
    return text;
  }

 private:
  std::filesystem::path folder_;
  int socket_ = -1;
  std::vector<std::string> messages_;
};

}  // namespace rung::test
