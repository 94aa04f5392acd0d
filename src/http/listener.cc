#include "src/http/listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace rung::http {

Result<Listener> listen_on(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string where = host + ":" + std::to_string(port);
  if (const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); code != 0)
    return permanent("http.listen: " + where + ": " + gai_strerror(code));
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int yes = 1;
  // Not SO_REUSEPORT, the library's choice: a second process would listen beside the first, and nobody be
  // told.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const bool ok = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 256) == 0;
  const std::string why = ok ? "" : std::strerror(errno);  // NOLINT: at start, one thread
  freeaddrinfo(found);
  if (!ok) {
    if (fd >= 0) close(fd);
    return permanent("http.listen: cannot listen on " + where + ": " + why);
  }
  sockaddr_storage mine{};
  socklen_t size = sizeof mine;
  getsockname(fd, reinterpret_cast<sockaddr*>(&mine), &size);
  if (mine.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<sockaddr_in6&>(mine);
    return Listener{fd, ntohs(six.sin6_port), IN6_IS_ADDR_LOOPBACK(&six.sin6_addr) != 0};
  }
  const auto& four = reinterpret_cast<sockaddr_in&>(mine);
  return Listener{fd, ntohs(four.sin_port), ntohl(four.sin_addr.s_addr) >> 24U == 127};
}

std::string address_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "?";
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  } else if (address.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  }
  const std::string_view all = text;
  return std::string(all.starts_with("::ffff:") ? all.substr(7) : all);
}

}  // namespace rung::http
