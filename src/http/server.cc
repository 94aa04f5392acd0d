#include "src/http/server.h"

#include <fcntl.h>
#include <httplib.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "src/http/channel.h"
#include "src/http/listener.h"
#include "src/http/problem.h"
#include "src/http/wire.h"
#include "src/io/log.h"

namespace rung::http {
namespace {

constexpr std::size_t kMostPath = 512;  // the library's patterns recurse by a path's length

// A wire as the library wants it.
class WireStream final : public httplib::Stream {
 public:
  WireStream(Wire& wire, int fd, std::string peer) : wire_(wire), fd_(fd), peer_(std::move(peer)) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override { return wire_.read(to, size); }
  ssize_t write(const char* from, size_t size) override {
    wire_.write({from, size});
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = peer_;
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  socket_t socket() const override { return fd_; }

 private:
  Wire& wire_;
  const int fd_;
  const std::string peer_;
};

thread_local Wire* wire = nullptr;  // of the connection that this thread serves

bool announces_body(const httplib::Request& req) {
  return req.has_header("Transfer-Encoding") ||
         (req.has_header("Content-Length") && req.get_header_value("Content-Length") != "0");
}

Request request_of(const httplib::Request& from) {
  Request to;
  to.method = from.method == "HEAD" ? "GET" : from.method;
  to.path = from.path;
  for (const auto& [name, value] : from.params) to.query.emplace_back(name, value);
  to.authorization = from.get_header_value("Authorization");
  to.if_match = from.get_header_value("If-Match");
  to.host = from.get_header_value("Host");
  to.origin = from.get_header_value("Origin");
  to.content_type = from.get_header_value("Content-Type");
  to.content_encoding = from.get_header_value("Content-Encoding");
  to.has_body = announces_body(from);
  to.body = from.body;
  to.peer = from.remote_addr;
  return to;
}

void put(httplib::Response& to, Response from) {
  to.status = from.status;
  for (auto& [name, value] : from.headers) to.set_header(name, value);
  to.set_header("Content-Type", from.type);
  to.set_header("Cache-Control", "no-store");
  to.body = std::move(from.body);
  if (from.close && wire != nullptr) wire->close = true;
  if (wire != nullptr && wire->close) to.set_header("Connection", "close");
}

Response refuse(int status, std::string_view detail, std::string_view path) {
  Response response = problem(status, detail, path);
  response.close = true;
  return response;
}

class HttpServer final : public Server, private httplib::Server {
 public:
  HttpServer(ServerOptions options, Admit admit, Handle handle)
      : options_(std::move(options)), admit_(std::move(admit)), handle_(std::move(handle)) {
    set_keep_alive_timeout(std::chrono::duration_cast<std::chrono::seconds>(options_.idle).count());
    set_keep_alive_max_count(1'000'000);
    set_pre_routing_handler([this](const auto& req, auto& res) { return before_body(req, res); });
    const auto all = [this](const httplib::Request& req, httplib::Response& res) {
      put(res, handle_(request_of(req)));
    };
    Get("/.*", all);
    Post("/.*", all);
    set_error_handler(
        HandlerWithResponse([](const auto& req, auto& res) { return library_error(req, res); }));
    set_exception_handler([](const auto& req, auto& res, const std::exception_ptr&) {
      log::error("a request ended in an exception", {{"path", std::string_view(req.path).substr(0, 200)}});
      put(res, refuse(500, "the request could not be worked on: this is a mistake of Rung's", req.path));
    });
  }

  ~HttpServer() override {
    if (wake_ >= 0) close(wake_);
    if (listener_ >= 0) close(listener_);
  }

  Result<void> begin() {
    if (!options_.cert.empty()) {
      auto tls = TlsContext::load(options_.cert, options_.key);
      if (!tls) return tl::unexpected(tls.error());
      tls_ = *std::move(tls);
    }
    wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const auto bound = listen_on(options_.host, options_.port);
    if (!bound) return tl::unexpected(bound.error());
    listener_ = bound->fd;
    port_ = bound->port;
    acceptor_ = std::thread([this] { accept_loop(); });
    return {};
  }

  int port() const override { return port_; }

  int connections() const override {
    const std::lock_guard lock(mutex_);
    return threads_;
  }

  void drain() override {
    draining_ = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(wake_, &one, sizeof one);
    const std::lock_guard lock(mutex_);
    for (const Connection* c : open_) {
      if (c->idle_since.ms != 0) shutdown(c->fd, SHUT_RD);
    }
  }

  bool stop(Ms most) override {
    drain();
    if (acceptor_.joinable()) acceptor_.join();
    std::unique_lock lock(mutex_);
    const auto none = [this] { return threads_ == 0; };
    if (ended_.wait_for(lock, most, none)) return true;
    for (const Connection* c : open_) shutdown(c->fd, SHUT_RDWR);
    return ended_.wait_for(lock, Ms{200}, none);
  }

 private:
  struct Connection {
    int fd = -1;
    BootMs idle_since{0};  // guarded by mutex_; 0 = at a request
  };

  void accept_loop() {
    while (!draining_) {
      pollfd fds[] = {{listener_, POLLIN, 0}, {wake_, POLLIN, 0}};
      if (poll(fds, 2, -1) < 0 || draining_) continue;
      sockaddr_storage from{};
      socklen_t size = sizeof from;
      const int fd =
          accept4(listener_, reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) {
        // Out of files, or a connection that ended before it was taken: the next turn, a little later.
        if (errno != EAGAIN && errno != EINTR) std::this_thread::sleep_for(Ms{10});
        continue;
      }
      const int yes = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      take(fd, address_of(from));
    }
    close(std::exchange(listener_, -1));
  }

  void take(int fd, std::string peer) {
    std::unique_lock lock(mutex_);
    const auto room = [this] { return threads_ < options_.connections; };
    if (!room()) {
      const Connection* oldest = nullptr;
      for (const Connection* c : open_) {
        if (c->idle_since.ms != 0 && (oldest == nullptr || c->idle_since < oldest->idle_since)) oldest = c;
      }
      if (oldest != nullptr) shutdown(oldest->fd, SHUT_RDWR);
      if (oldest == nullptr || !ended_.wait_for(lock, Ms{100}, room)) {
        lock.unlock();
        return turn_away(fd);
      }
    }
    ++threads_;
    lock.unlock();
    try {
      std::thread([this, fd, peer = std::move(peer)] { serve(fd, peer); }).detach();
    } catch (const std::system_error&) {
      turn_away(fd);
      thread_ended();
    }
  }

  void turn_away(int fd) const {
    if (!tls_) {
      const std::string body = dump(problem_json(503, "all connections are taken (http.connections)", ""));
      const std::string text =
          "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
          "Retry-After: 1\r\nConnection: close\r\nContent-Length: " +
          std::to_string(body.size()) + "\r\n\r\n" + body;
      [[maybe_unused]] const auto n = send(fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      shutdown(fd, SHUT_WR);
    }
    close(fd);
  }

  void thread_ended() {
    const std::lock_guard lock(mutex_);
    --threads_;
    ended_.notify_all();  // under the lock: whoever waits may destroy this afterwards
  }

  void serve(int fd, const std::string& peer) {
    Connection connection{fd, {0}};
    auto channel = tls_ ? tls_->channel(fd) : plain_channel(fd);
    {
      const std::lock_guard lock(mutex_);
      open_.push_back(&connection);
    }
    if (!draining_ && channel->open(boot_now() + options_.timeout)) {
      Wire mine(*channel);
      WireStream stream(mine, fd, peer);
      wire = &mine;
      while (one_request(connection, mine, stream)) {
      }
      wire = nullptr;
    }
    {
      const std::lock_guard lock(mutex_);  // before its number can be another file's
      std::erase(open_, &connection);
    }
    channel.reset();
    thread_ended();
  }

  // false: the connection ends.
  bool one_request(Connection& connection, Wire& mine, WireStream& stream) {
    set_idle(connection, boot_now());
    if (draining_ || (!mine.has_input() && !wait_readable(connection.fd, boot_now() + options_.idle)))
      return false;
    set_idle(connection, {0});
    const BootMs deadline = boot_now() + options_.timeout;
    const auto head = mine.read_head(deadline, options_.most_body);
    if (head == Wire::Head::ended) return false;
    if (head != Wire::Head::there) {
      const bool late = head == Wire::Head::late;
      write_raw(mine, late ? 408 : 431,
                late ? "the request did not arrive in time (http.timeout)"
                     : "the request's header is over 16 KB or has more than 100 lines");
      return false;
    }
    mine.close = draining_;
    bool ends = false;
    const bool ok = process_request(stream, false, ends, nullptr);
    const bool written = mine.flush(boot_now() + options_.timeout);
    const bool more = ok && written && !ends && !mine.close;
    if (!more && written) mine.linger(boot_now() + Ms{500});
    return more;
  }

  void write_raw(Wire& mine, int status, std::string_view detail) {
    const std::string body = dump(problem_json(status, detail, ""));
    const std::string text =
        "HTTP/1.1 " + std::to_string(status) + " " + std::string(title_of(status)) +
        "\r\nContent-Type: application/problem+json\r\nConnection: close\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    mine.write(text);
    if (mine.flush(boot_now() + options_.timeout)) mine.linger(boot_now() + Ms{500});
  }

  void set_idle(Connection& connection, BootMs since) {
    const std::lock_guard lock(mutex_);
    connection.idle_since = since;
  }

  HandlerResponse before_body(const httplib::Request& req, httplib::Response& res) {
    if (wire != nullptr) wire->no_body = !announces_body(req);
    std::optional<Response> no = unsound(req);
    if (!no) no = admit_(request_of(req));
    if (!no) return HandlerResponse::Unhandled;
    // What was announced and not read would be taken for the next request.
    if (req.has_header("Content-Length") || req.has_header("Transfer-Encoding")) no->close = true;
    put(res, *std::move(no));
    return HandlerResponse::Handled;
  }

  // What the library doesn't look at: two lengths, or one that isn't a number, are how requests are smuggled.
  std::optional<Response> unsound(const httplib::Request& req) const {
    if (req.path.size() > kMostPath || !req.path.starts_with('/'))
      return refuse(404, "there is no such path: see /openapi.json", "");
    const bool chunked = req.has_header("Transfer-Encoding");
    const std::size_t lengths = req.get_header_value_count("Content-Length");
    if (lengths + (chunked ? 1 : 0) > 1)
      return refuse(400, "say a body's length once: Content-Length, or Transfer-Encoding: chunked", req.path);
    if (announces_body(req) && (req.method == "GET" || req.method == "HEAD"))
      return refuse(400, req.method + " takes no body", req.path);
    if (chunked && strcasecmp(req.get_header_value("Transfer-Encoding").c_str(), "chunked") != 0)
      return refuse(501, "no other Transfer-Encoding than chunked is taken", req.path);
    if (lengths == 1) {
      const std::string text = req.get_header_value("Content-Length");
      if (text.empty() || text.size() > 18 || text.find_first_not_of("0123456789") != std::string::npos)
        return refuse(400, "Content-Length is a number", req.path);
      if (std::stoull(text) > options_.most_body) return too_large(req.path);
    }
    return std::nullopt;
  }

  Response too_large(const std::string& path) const {
    return refuse(413, "the body is over " + std::to_string(options_.most_body) + " bytes (http.max_body)",
                  path);
  }

  // Where the library itself ends a request: no handler, or a body that did not arrive.
  static HandlerResponse library_error(const httplib::Request& req, httplib::Response& res) {
    if (!res.body.empty()) return HandlerResponse::Handled;  // ours
    int status = res.status;
    std::string detail =
        status == 404 ? "there is no such path: see /openapi.json" : "this is no HTTP request";
    if (wire != nullptr && wire->too_large) {
      status = 413;
      detail = "the body is larger than http.max_body allows";
    } else if (wire != nullptr && wire->late) {
      status = 408;
      detail = "the request did not arrive in time (http.timeout)";
    } else if (status == 400 && !req.path.empty()) {
      detail = "the request's body did not arrive as it was announced";
    }
    put(res, refuse(status, detail, req.path));
    return HandlerResponse::Handled;
  }

  const ServerOptions options_;
  const Admit admit_;
  const Handle handle_;
  std::optional<TlsContext> tls_;
  int listener_ = -1, wake_ = -1, port_ = 0;
  std::atomic<bool> draining_{false};
  std::thread acceptor_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<Connection*> open_;  // guarded by mutex_
  int threads_ = 0;                // guarded by mutex_
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Admit admit, Handle handle) {
  auto server = std::make_unique<HttpServer>(std::move(options), std::move(admit), std::move(handle));
  if (auto begun = server->begin(); !begun) return tl::unexpected(begun.error());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace rung::http
