#include "src/http/server.h"

#include <fcntl.h>
#include <httplib.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "src/http/channel.h"
#include "src/http/problem.h"
#include "src/io/log.h"

namespace rung::http {
namespace {

constexpr std::size_t kMostHeader = 16 * 1024;
constexpr std::size_t kMostHeaderLines = 100;
constexpr std::size_t kMostPath = 512;  // the library's patterns recurse by a path's length
constexpr std::size_t kReadSize = 16 * 1024;
constexpr std::size_t kMostLinger = 4u << 20;

// One connection's bytes as the library wants them, with what it doesn't look after: the header is read as a
// whole, and bounded; so is the body, however it is announced; and all of it has one deadline. What is
// written leaves in one.
class Wire final : public httplib::Stream {
 public:
  Wire(Channel& channel, int fd, std::string peer) : channel_(channel), fd_(fd), peer_(std::move(peer)) {}

  enum class Head { there, ended, late, too_large };
  Head read_head(BootMs deadline, std::size_t most_body) {
    deadline_ = deadline;
    close_ = too_large_ = late_ = no_body_ = false;
    in_.erase(0, std::exchange(at_, 0));
    std::size_t looked = 0;
    while (true) {
      const std::size_t end = in_.find("\r\n\r\n", looked);
      if (end != std::string::npos) {
        if (end > kMostHeader || !mask(end + 4)) return Head::too_large;
        left_ = end + 4 + most_body + most_body / 8 + 4096;  // chunks have a frame
        return Head::there;
      }
      if (in_.size() > kMostHeader) return Head::too_large;
      looked = in_.size() < 3 ? 0 : in_.size() - 3;
      if (const long n = fill(); n <= 0) return n == -2 ? Head::late : Head::ended;
    }
  }

  bool flush(BootMs deadline) {
    const bool ok = out_.empty() || channel_.write(out_.data(), out_.size(), deadline);
    out_.clear();
    return ok;
  }

  // So that the other side reads the answer and not a reset, which what it still sends would cause.
  void linger(BootMs deadline) {
    channel_.finish();
    std::string rest(kReadSize, '\0');
    for (std::size_t taken = 0; taken < kMostLinger;) {
      const long n = channel_.read(rest.data(), rest.size(), deadline);
      if (n <= 0) return;
      taken += static_cast<std::size_t>(n);
    }
  }

  bool has_input() const { return in_.size() > at_; }
  bool close_ = false;                     // after this answer
  bool too_large_ = false, late_ = false;  // why a read failed
  bool no_body_ = false;  // none is announced: the library would read on to the connection's end

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }

  ssize_t read(char* to, size_t size) override {
    if (no_body_) return 0;
    if (left_ == 0) {
      too_large_ = true;
      return -1;
    }
    if (in_.empty()) {
      if (!flush(deadline_)) return -1;  // "100 Continue"
      if (const long n = fill(); n <= 0) {
        late_ = n == -2;
        return -1;  // 0 would be taken for the end of a body that has no length
      }
    }
    const std::size_t n = std::min({size, in_.size() - at_, left_});
    std::copy_n(in_.data() + at_, n, to);
    at_ += n;
    left_ -= n;
    if (at_ == in_.size()) {
      in_.clear();
      at_ = 0;
    }
    return static_cast<ssize_t>(n);
  }

  ssize_t write(const char* from, size_t size) override {
    out_.append(from, size);
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
  long fill() {
    in_.erase(0, std::exchange(at_, 0));
    const std::size_t had = in_.size();
    in_.resize(had + kReadSize);
    const long n = channel_.read(in_.data() + had, kReadSize, deadline_);
    in_.resize(had + static_cast<std::size_t>(std::max(n, 0L)));
    return n;
  }

  // The names of headers that the library would act upon and must not: parts of a JSON text are no answer,
  // its pattern for Range recurses by the header's length, and brotli at its best takes seconds. false: too
  // many lines.
  bool mask(std::size_t end) {
    std::size_t lines = 0;
    for (std::size_t at = in_.find("\r\n") + 2; at < end; at = in_.find("\r\n", at) + 2) {
      if (++lines > kMostHeaderLines) return false;
      for (const std::string_view name : {"range:", "if-range:", "accept-encoding:"}) {
        if (in_.size() - at >= name.size() && strncasecmp(in_.data() + at, name.data(), name.size()) == 0)
          in_[at] = '-';
      }
    }
    return true;
  }

  Channel& channel_;
  const int fd_;
  const std::string peer_;
  BootMs deadline_{0};
  std::string in_, out_;
  std::size_t at_ = 0;    // of in_, how much the library has taken
  std::size_t left_ = 0;  // how much it may take of this request
};

thread_local Wire* wire = nullptr;  // of the connection that this thread serves

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
  if (from.close && wire != nullptr) wire->close_ = true;
  if (wire != nullptr && wire->close_) to.set_header("Connection", "close");
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
    if (auto bound = bind_listener(); !bound) return bound;
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

  Result<void> bind_listener() {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE;
    addrinfo* found = nullptr;
    const std::string where = options_.host + ":" + std::to_string(options_.port);
    if (const int code =
            getaddrinfo(options_.host.c_str(), std::to_string(options_.port).c_str(), &hints, &found);
        code != 0)
      return permanent("http.listen: " + where + ": " + gai_strerror(code));
    const int fd = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int yes = 1;
    // Not SO_REUSEPORT, the library's choice: a second process would listen beside the first, and nobody be
    // told.
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const bool ok = fd >= 0 && ::bind(fd, found->ai_addr, found->ai_addrlen) == 0 && ::listen(fd, 256) == 0;
    const std::string why = ok ? "" : std::strerror(errno);  // NOLINT: at start, one thread
    freeaddrinfo(found);
    listener_ = fd;
    if (!ok) return permanent("http.listen: cannot listen on " + where + ": " + why);
    sockaddr_storage mine{};
    socklen_t size = sizeof mine;
    getsockname(fd, reinterpret_cast<sockaddr*>(&mine), &size);
    port_ = ntohs(mine.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(mine).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(mine).sin_port);
    return {};
  }

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
      Wire mine(*channel, fd, peer);
      wire = &mine;
      while (one_request(connection, mine)) {
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
  bool one_request(Connection& connection, Wire& mine) {
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
    mine.close_ = draining_;
    bool ends = false;
    const bool ok = process_request(mine, false, ends, nullptr);
    const bool written = mine.flush(boot_now() + options_.timeout);
    const bool more = ok && written && !ends && !mine.close_;
    if (!more && written) mine.linger(boot_now() + Ms{500});
    return more;
  }

  void write_raw(Wire& mine, int status, std::string_view detail) {
    const std::string body = dump(problem_json(status, detail, ""));
    const std::string text =
        "HTTP/1.1 " + std::to_string(status) + " " + std::string(title_of(status)) +
        "\r\nContent-Type: application/problem+json\r\nConnection: close\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    mine.write(text.data(), text.size());
    if (mine.flush(boot_now() + options_.timeout)) mine.linger(boot_now() + Ms{500});
  }

  void set_idle(Connection& connection, BootMs since) {
    const std::lock_guard lock(mutex_);
    connection.idle_since = since;
  }

  HandlerResponse before_body(const httplib::Request& req, httplib::Response& res) {
    if (wire != nullptr) wire->no_body_ = !announces_body(req);
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
    if (wire != nullptr && wire->too_large_) {
      status = 413;
      detail = "the body is larger than http.max_body allows";
    } else if (wire != nullptr && wire->late_) {
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
