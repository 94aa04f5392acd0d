#include "src/http/server.h"

#include <fcntl.h>
#include <httplib.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <thread>

#include "src/http/budget.h"
#include "src/http/channel.h"
#include "src/http/listener.h"
#include "src/http/places.h"
#include "src/http/problem.h"
#include "src/http/wire.h"
#include "src/io/log.h"

namespace rung::http {
namespace {

constexpr std::size_t kMostPath = 512;  // the library's patterns recurse by a path's length
// An answer that ends the connection is read only when what was sent before has been taken.
constexpr Ms kLinger{500};
constexpr Ms kLingerOnBody{2000};  // also the rest of a body that was refused
constexpr Ms kSpareTimeout{2000};  // for the request of a connection that has a spare place
// Bodies of all requests together, but for small ones (kSmallBody).
constexpr std::int64_t kMostBodies = 64 << 20;
constexpr std::size_t kReadSize = 64 * 1024;

// A wire as the library wants it.
class WireStream final : public httplib::Stream {
 public:
  WireStream(Wire& wire, int fd) : wire_(wire), fd_(fd) {}

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* to, size_t size) override { return wire_.read(to, size); }
  ssize_t write(const char* from, size_t size) override {
    wire_.write({from, size});
    return static_cast<ssize_t>(size);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
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
};

// Of the connection that this thread serves, and the request that it is at.
thread_local Wire* wire = nullptr;
thread_local Request* request = nullptr;
thread_local Budget::Share* share = nullptr;  // of HttpServer::bodies_

constexpr const char* kLate = "the request did not arrive in time (http.timeout)";

// Without its query, which may hold what is not to be decoded.
Request request_of(const RequestHead& head) {
  Request to;
  to.method = head.method == "HEAD" ? "GET" : head.method;
  to.path = decode_path(std::string_view(head.target).substr(0, head.target.find('?')));
  to.authorization = head.get("authorization");
  if (const std::string* version = head.find("if-match")) to.if_match = *version;
  to.host = head.get("host");
  to.origin = head.get("origin");
  to.content_type = head.get("content-type");
  to.content_encoding = head.get("content-encoding");
  to.has_body = head.has_body();
  return to;
}

void put(httplib::Response& to, Response from) {
  to.status = from.status;
  for (auto& [name, value] : from.headers) to.set_header(name, value);
  to.set_header("Content-Type", from.type);
  to.set_header("Cache-Control", "no-store");
  to.body = std::move(from.body);
  if (from.close && wire != nullptr) wire->close = true;
}

Response refuse(int status, std::string_view detail, std::string_view path) {
  Response response = problem(status, detail, path);
  response.close = true;
  return response;
}

class HttpServer final : public Server, private httplib::Server {
 public:
  HttpServer(ServerOptions options, const Clock& clock, Admit admit, Handle handle)
      : options_(std::move(options)),
        clock_(clock),
        admit_(std::move(admit)),
        handle_(std::move(handle)),
        places_(options_.connections, options_.connections_of_one_address(), clock) {
    set_keep_alive_timeout(std::chrono::duration_cast<std::chrono::seconds>(options_.idle).count());
    set_keep_alive_max_count(1'000'000);
    set_pre_routing_handler([this](const auto&, auto& res) { return before_body(res); });
    Get("/.*", [this](const auto&, auto& res) { put(res, handle_(*request)); });
    // With a content reader, which is not used: the library would read a body into memory that nobody counts.
    Post("/.*", [this](const auto&, auto& res, const httplib::ContentReader&) { answer_post(res); });
    set_error_handler(HandlerWithResponse([](const auto&, auto& res) { return library_error(res); }));
    set_exception_handler([](const auto&, auto& res, const std::exception_ptr&) {
      log::error("a request ended in an exception",
                 {{"path", std::string_view(request->path).substr(0, 200)}});
      put(res, refuse(500, "the request could not be worked on: this is a mistake of Rung's", request->path));
    });
    // Instead of what the library thinks of the connection: it doesn't decide that.
    set_post_routing_handler([](const auto&, auto& res) {
      if (!wire->close) return;
      res.headers.erase("Keep-Alive");
      res.headers.erase("Connection");
      res.set_header("Connection", "close");
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
    if (!bound->loopback && !options_.beyond_this_machine)
      return permanent("http.listen: " + options_.host +
                       " is reached by others than this machine: that needs http.token_file");
    acceptor_ = std::thread([this] { accept_loop(); });
    return {};
  }

  int port() const override { return port_; }

  int connections() const override { return places_.count(); }

  void drain() override {
    draining_ = true;
    // Wakes each that waits for a request. (shutdown() of an idle one would cut a request that is just
    // arriving: its header would be there, and its body not.)
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(wake_, &one, sizeof one);
  }

  bool stop(Ms most) override {
    drain();
    if (acceptor_.joinable()) acceptor_.join();
    bool all = places_.wait_until_empty(most);
    if (!all) {
      places_.shut_all();
      all = places_.wait_until_empty(Ms{200});
    }
    const std::lock_guard lock(mutex_);
    if (all && last_.joinable()) last_.join();
    return all;
  }

 private:
  using Place = Places::Place;
  using Threads = std::list<std::thread>;

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
    Place* place = places_.take(fd, std::move(peer));
    if (place == nullptr) return turn_away(fd);
    const std::lock_guard lock(mutex_);
    const auto me = serving_.emplace(serving_.end());
    try {
      *me = std::thread([this, place, me] {
        serve(*place);
        thread_ended(*place, me);
      });
    } catch (const std::system_error&) {
      serving_.erase(me);
      places_.forget_file(*place);
      places_.release(*place);
      turn_away(fd);
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

  // What a thread has of its own ends after its function (the connector to the database keeps something for
  // each), and it must not meet the end of the process. So each is joined by the next that ends, the last by
  // stop().
  void thread_ended(Place& place, Threads::iterator me) {
    std::unique_lock lock(mutex_);
    std::thread before = std::exchange(last_, std::move(*me));
    serving_.erase(me);
    places_.release(place);
    lock.unlock();
    if (before.joinable()) before.join();
  }

  // How long a request may take to arrive.
  Ms timeout(bool spare) const {
    return spare ? std::min(options_.timeout, kSpareTimeout) : options_.timeout;
  }

  void serve(Place& place) {
    auto channel = tls_ ? tls_->channel(place.fd, clock_) : plain_channel(place.fd, clock_);
    // Also one that was taken just before the drain, where its request is there already.
    const bool wanted = !draining_ || wait_readable(place.fd, wake_, clock_, clock_.boot());
    if (wanted && channel->open(clock_.boot() + timeout(place.spare))) {
      Wire mine(*channel);
      WireStream stream(mine, place.fd);
      wire = &mine;
      while (one_request(place, mine, stream)) {
      }
      wire = nullptr;
    }
    places_.forget_file(place);
    channel.reset();
  }

  // false: the connection ends.
  bool one_request(Place& place, Wire& mine, WireStream& stream) {
    const Ms most = timeout(place.spare);
    places_.waits(place);
    const BootMs until = clock_.boot() + (place.spare ? most : options_.idle);
    if (!mine.has_input() && !wait_readable(place.fd, wake_, clock_, until)) return false;
    // A spare place is given up until all of the head is there.
    if (!place.spare && !places_.serves(place)) return false;
    const auto head = mine.read_head(clock_.boot() + most, options_.most_body);
    if (head == Wire::Head::ended) return false;
    if (place.spare && !places_.serves(place)) return false;
    if (head != Wire::Head::there) return refuse_head(head, mine), false;
    const RequestHead& said = mine.head();
    const std::string wish = said.get("connection");
    mine.close =
        draining_ || place.spare || said.version != "HTTP/1.1" || strcasecmp(wish.c_str(), "close") == 0;
    bool ends = false;
    const bool ok = answered(place, said, stream, ends);
    const bool written = mine.flush(clock_.boot() + options_.timeout);
    const bool more = ok && written && !ends && !mine.close;
    if (!more && place.spare) places_.waits(place);
    if (!more && written) mine.linger(clock_.boot() + (said.has_body() ? kLingerOnBody : kLinger));
    return more;
  }

  bool answered(const Place& place, const RequestHead& said, WireStream& stream, bool& ends) {
    Request at_hand = request_of(said);
    at_hand.peer = place.peer;
    at_hand.spare = place.spare;
    Budget::Share mine(bodies_);
    request = &at_hand;
    share = &mine;
    const bool ok = process_request(stream, false, ends, nullptr);
    request = nullptr;
    share = nullptr;
    return ok;
  }

  void refuse_head(Wire::Head head, Wire& mine) {
    if (head == Wire::Head::late) return write_raw(mine, 408, kLate);
    if (head == Wire::Head::wrong) return write_raw(mine, 400, mine.why());
    write_raw(mine, 431, "the request's header is over 16 KB or has more than 100 lines");
  }

  void write_raw(Wire& mine, int status, std::string_view detail) {
    const std::string body = dump(problem_json(status, detail, ""));
    const std::string text =
        "HTTP/1.1 " + std::to_string(status) + " " + std::string(title_of(status)) +
        "\r\nContent-Type: application/problem+json\r\nConnection: close\r\nContent-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    mine.write(text);
    if (mine.flush(clock_.boot() + options_.timeout)) mine.linger(clock_.boot() + kLinger);
  }

  HandlerResponse before_body(httplib::Response& res) {
    std::optional<Response> no = unsound(wire->head());
    if (!no) no = admit_(*request);
    if (!no) no = no_room(wire->head());
    if (!no) return HandlerResponse::Unhandled;
    // What was announced and not read would be taken for the next request.
    if (request->has_body) no->close = true;
    put(res, *std::move(no));
    return HandlerResponse::Handled;
  }

  // What is well written, and not taken all the same.
  std::optional<Response> unsound(const RequestHead& head) const {
    if (request->path.size() > kMostPath || !request->path.starts_with('/'))
      return refuse(404, "there is no such path: see /openapi.json", "");
    if (head.version == "HTTP/1.1" && head.find("host") == nullptr)
      return refuse(400, "an HTTP/1.1 request has the header Host", request->path);
    if (const std::size_t at = head.target.find('?'); at != std::string::npos) {
      auto query = parse_query(std::string_view(head.target).substr(at + 1));
      if (!query) return refuse(400, query.error().message, request->path);
      request->query = *std::move(query);
    }
    if (head.has_body() && (head.method == "GET" || head.method == "HEAD"))
      return refuse(400, head.method + " takes no body", request->path);
    if (head.chunked && strcasecmp(head.get("transfer-encoding").c_str(), "chunked") != 0)
      return refuse(501, "no other Transfer-Encoding than chunked is taken", request->path);
    if (head.length > options_.most_body) return too_large(request->path);
    return std::nullopt;
  }

  // Before a body is read. How long one without a length is, is not known yet: it is counted as it comes.
  std::optional<Response> no_room(const RequestHead& head) const {
    if (head.chunked || head.length <= kSmallBody) return std::nullopt;
    if (share->grow(static_cast<std::int64_t>(head.length))) return std::nullopt;
    return no_memory();
  }

  static Response no_memory() {
    Response response = problem(503, "too many large bodies are being read: try again later", request->path);
    response.headers.emplace_back("Retry-After", "1");
    response.close = true;
    return response;
  }

  void answer_post(httplib::Response& res) {
    std::string body;
    if (auto no = read_body(wire->head(), body)) return put(res, *std::move(no));
    request->body = body;
    put(res, handle_(*request));
  }

  // All of it; an answer: it did not arrive as it should.
  std::optional<Response> read_body(const RequestHead& head, std::string& body) {
    body.reserve(head.chunked ? kSmallBody : head.length);
    char piece[kReadSize];
    while (true) {
      const long n = wire->read(piece, sizeof piece);
      if (n == 0) return std::nullopt;
      if (n < 0) return broken_body();
      const std::size_t size = body.size() + static_cast<std::size_t>(n);
      if (size > body.capacity()) {
        const std::size_t room = std::max(size, 2 * body.capacity());
        // While it is copied both are there.
        const std::size_t more = room - static_cast<std::size_t>(share->bytes());
        if (!share->grow(static_cast<std::int64_t>(more))) return no_memory();
        body.reserve(room);
      }
      body.append(piece, static_cast<std::size_t>(n));
    }
  }

  Response too_large(const std::string& path) const {
    return refuse(413, "the body is over " + std::to_string(options_.most_body) + " bytes (http.max_body)",
                  path);
  }

  static Response broken_body() {
    if (wire->too_large) return refuse(413, "the body is larger than http.max_body allows", request->path);
    if (wire->late) return refuse(408, kLate, request->path);
    if (wire->broken) return refuse(400, "the body's chunks are not as HTTP has them", request->path);
    return refuse(400, "the request's body did not arrive as it was announced", request->path);
  }

  // Where the library itself ends a request: a method that it doesn't know.
  static HandlerResponse library_error(httplib::Response& res) {
    if (!res.body.empty()) return HandlerResponse::Handled;  // ours
    put(res, res.status == 404 ? refuse(404, "there is no such path: see /openapi.json", request->path)
                               : refuse(res.status, "this is no HTTP request", request->path));
    return HandlerResponse::Handled;
  }

  const ServerOptions options_;
  const Clock& clock_;
  const Admit admit_;
  const Handle handle_;
  std::optional<TlsContext> tls_;
  int listener_ = -1, wake_ = -1, port_ = 0;
  std::atomic<bool> draining_{false};
  std::thread acceptor_;
  Places places_;
  Budget bodies_{kMostBodies};
  std::mutex mutex_;
  Threads serving_;   // guarded by mutex_
  std::thread last_;  // guarded by mutex_; ended, and not joined yet
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, const Clock& clock, Admit admit,
                                              Handle handle) {
  auto server = std::make_unique<HttpServer>(std::move(options), clock, std::move(admit), std::move(handle));
  if (auto begun = server->begin(); !begun) return tl::unexpected(begun.error());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace rung::http
