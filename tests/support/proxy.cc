#include "tests/support/proxy.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <utility>

#include "src/core/base/url.h"

namespace rung::test {
namespace {

constexpr std::size_t kAtOnce = 64 * 1024;
constexpr std::size_t kLogin = 4096;  // bytes; a client's login is shorter

void reset(int fd) {
  if (fd < 0) return;
  const linger hard{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  close(fd);
}

int connect_to(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = AF_INET;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0) return -1;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool there = connect(fd, list->ai_addr, list->ai_addrlen) == 0;
  freeaddrinfo(list);
  if (there) return fd;
  close(fd);
  return -1;
}

// One direction: bytes read that the other side has not taken yet.
struct Stream {
  int from = -1, to = -1;
  std::string held;

  bool wants_read() const { return from >= 0 && held.size() < kAtOnce; }
  // False: this side is over.
  bool read(std::uint64_t* count) {
    char buffer[kAtOnce];
    const ssize_t n = recv(from, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n > 0) {
      held.append(buffer, static_cast<std::size_t>(n));
      *count += static_cast<std::uint64_t>(n);
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  }
  bool write() {
    if (held.empty() || to < 0) return true;
    const ssize_t n = send(to, held.data(), held.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) held.erase(0, static_cast<std::size_t>(n));
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
  }
};

}  // namespace

struct TcpProxy::Pair {
  int client = -1, server = -1;
  Stream up, down;
  std::uint64_t sent_up = 0, sent_down = 0;
  short client_ready = 0, server_ready = 0;
  bool has_said_first = false, deaf = false;
  bool answered = true;  // the server said something last
  std::string login;     // the first bytes that the client sent

  ~Pair() {
    reset(client);
    reset(server);
  }
};

TcpProxy::TcpProxy(std::string host, int port) : host_(std::move(host)), server_port_(port) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 64) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("the proxy cannot listen");
  }
  port_ = ntohs(address.sin_port);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { run(); });
}

TcpProxy::~TcpProxy() {
  stop_ = true;
  eventfd_write(wake_, 1);
  thread_.join();
  pairs_.clear();
  close(listener_);
  close(wake_);
}

std::size_t TcpProxy::connections() const {
  std::lock_guard lock(mutex_);
  return pairs_.size();
}

void TcpProxy::cut() {
  std::lock_guard lock(mutex_);
  pairs_.clear();
  eventfd_write(wake_, 1);
}

void TcpProxy::refuse(bool yes) { refuse_ = yes; }

void TcpProxy::stall(bool yes) {
  stall_ = yes;
  eventfd_write(wake_, 1);
}

void TcpProxy::stall_to_server(bool yes) {
  stall_to_server_ = yes;
  eventfd_write(wake_, 1);
}

void TcpProxy::half_close() {
  std::lock_guard lock(mutex_);
  for (auto& pair : pairs_) {
    reset(pair->server);
    pair->server = pair->up.to = pair->down.from = -1;
  }
  eventfd_write(wake_, 1);
}

void TcpProxy::cut_after(std::uint64_t bytes) { cut_after_ = bytes; }

void TcpProxy::cut_those_with(std::string text) {
  std::lock_guard lock(mutex_);
  cut_those_with_ = std::move(text);
  if (cut_those_with_.empty()) return;
  std::erase_if(pairs_,
                [&](const auto& pair) { return pair->login.find(cut_those_with_) != std::string::npos; });
  eventfd_write(wake_, 1);
}

void TcpProxy::deafen(std::string first, std::string then) {
  std::lock_guard lock(mutex_);
  deafen_first_ = std::move(first);
  deafen_then_ = std::move(then);
}

bool TcpProxy::deafened() const {
  std::lock_guard lock(mutex_);
  return deafened_;
}

// A statement comes whole and alone: the client waits for its answer.
void TcpProxy::listen_to(Pair& pair) {
  if (deafen_first_.empty()) return;
  const std::string& said = pair.up.held;
  if (pair.has_said_first && said.find(deafen_then_) != std::string::npos) {
    pair.deaf = deafened_ = true;
    deafen_first_.clear();
  }
  pair.has_said_first = pair.has_said_first || said.find(deafen_first_) != std::string::npos;
}

void TcpProxy::accept_one() {
  const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  ++accepted_;
  const int server = refuse_ ? -1 : connect_to(host_, server_port_);
  if (server < 0) return reset(client);
  const int one = 1;
  for (const int fd : {client, server}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  auto pair = std::make_unique<Pair>();
  pair->client = client;
  pair->server = server;
  pair->up = {client, server, {}};
  pair->down = {server, client, {}};
  std::lock_guard lock(mutex_);
  // Refused since: cut() may have run while we connected, and this one would outlive it.
  if (!refuse_) pairs_.push_back(std::move(pair));
}

// False: the pair is over.
bool TcpProxy::move(Pair& pair) {
  const bool up = !stall_ && !stall_to_server_;
  const bool down = !stall_ && !pair.deaf;
  if (up && pair.client_ready != 0 && pair.up.wants_read()) {
    const auto before = pair.sent_up;
    if (!pair.up.read(&pair.sent_up)) return false;
    if (pair.sent_up != before && std::exchange(pair.answered, false)) ++requests_;
  }
  if (down && pair.server_ready != 0 && pair.down.wants_read()) {
    const auto before = pair.sent_down;
    if (!pair.down.read(&pair.sent_down)) return false;
    if (pair.sent_down != before) pair.answered = true;
  }
  if (up) listen_to(pair);
  if (pair.login.size() < kLogin) pair.login += pair.up.held;
  if (!cut_those_with_.empty() && pair.login.find(cut_those_with_) != std::string::npos) return false;
  const std::uint64_t most = cut_after_;
  if (most > 0 && pair.sent_up >= most) {
    cut_after_ = 0;
    return false;
  }
  return (!up || pair.up.write()) && (!down || pair.down.write());
}

void TcpProxy::run() {
  while (!stop_) {
    std::vector<pollfd> fds{{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
    std::vector<Pair*> order;
    {
      std::lock_guard lock(mutex_);
      for (auto& pair : pairs_) {
        const bool up = !stall_ && !stall_to_server_, down = !stall_ && !pair->deaf;
        const auto interest = [](bool in, bool out) {
          return static_cast<short>((in ? POLLIN : 0) | (out ? POLLOUT : 0));
        };
        const short client = interest(up && pair->up.wants_read(), down && !pair->down.held.empty());
        const short server = interest(down && pair->down.wants_read(), up && !pair->up.held.empty());
        // A side of no interest is left out: a hang-up there would spin.
        fds.push_back({client != 0 ? pair->client : -1, client, 0});
        fds.push_back({server != 0 ? pair->server : -1, server, 0});
        order.push_back(pair.get());
      }
    }
    poll(fds.data(), fds.size(), 1000);
    if (fds[1].revents != 0) {
      eventfd_t count = 0;
      eventfd_read(wake_, &count);
    }
    if (fds[0].revents != 0) accept_one();
    std::lock_guard lock(mutex_);
    std::erase_if(pairs_, [&](const std::unique_ptr<Pair>& pair) {
      const auto it = std::find(order.begin(), order.end(), pair.get());
      if (it == order.end()) return false;
      const auto i = static_cast<std::size_t>(it - order.begin());
      pair->client_ready = fds[2 + 2 * i].revents;
      pair->server_ready = fds[3 + 2 * i].revents;
      return !move(*pair);
    });
  }
}

std::string with_port(std::string_view url, int port) {
  auto parsed = parse_url(url);
  if (!parsed) throw std::runtime_error(parsed.error().message);
  parsed->host = "127.0.0.1";
  parsed->port = port;
  return format_url(*parsed);
}

}  // namespace rung::test
