#include "src/http/server/server.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <future>
#include <system_error>
#include <thread>

#include "src/http/server/request_reader.h"
#include "src/io/log.h"

namespace rung::http {

namespace {

namespace net = boost::asio;
namespace beast = boost::beast::http;
using net::ip::tcp;
using Code = boost::system::error_code;
using api::Problem;
using BeastResponse = beast::response<beast::string_body>;

// Threads for blocking calls. Created only as needed, as many as were ever busy at once: idle ones hold
// stacks and heaps. Thread: one, except join() (any).
class Workers {
 public:
  Workers() = default;
  ~Workers() { join(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Throws std::system_error if the first thread cannot be created; if a further one cannot, the call waits
  // its turn.
  template <typename Call>
  void post(Call call) {
    grow();
    ++busy_;
    net::post(context_, std::move(call));
  }
  // A call posted with post() has ended.
  void done() { --busy_; }

  // Waits for all calls. Nothing may be posted afterwards. A worker's thread-local data (the database
  // connector keeps some for each thread) must be gone before the process ends.
  void join() {
    running_.reset();
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }

 private:
  void grow() {
    if (busy_ < threads_.size()) return;
    try {
      threads_.emplace_back([this] { context_.run(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;
    }
  }

  net::io_context context_;
  net::executor_work_guard<net::io_context::executor_type> running_{context_.get_executor()};
  std::vector<std::thread> threads_;
  std::size_t busy_ = 0;
};

// Shared by the connections of a server.
struct Shared {
  const ServerOptions options;
  const Server::Admit admit;  // on the I/O thread: it must not block
  Places places;
  Budget bodies;  // of all requests and responses together, except small ones (kSmallBody)
  Workers workers = {};
  bool draining = false;
};

// `without_body`: for HEAD.
BeastResponse to_beast(Response from, bool close, bool without_body = false) {
  BeastResponse to(static_cast<beast::status>(from.status), 11);
  for (const auto& [name, value] : from.headers) to.set(name, value);
  to.set(beast::field::content_type, from.type);
  if (to.find(beast::field::cache_control) == to.end()) to.set(beast::field::cache_control, "no-store");
  to.keep_alive(!close);
  to.content_length(from.body.size());
  if (!without_body) to.body() = std::move(from.body);
  return to;
}

// Before closing, we read what the peer still sends: otherwise a reset could destroy the response unread.
constexpr Ms kLinger{500};
constexpr Ms kLingerOnBody{2000};  // also for the rest of a refused body
constexpr std::size_t kMostLinger = 32u << 20;
constexpr Ms kSpareTimeout{2000};  // for the request on a spare place

constexpr Ms kEventsEvery{250};  // a stream is asked for what is to be sent

constexpr const char* kLate = "the request did not arrive in time (http.timeout)";

// One connection, from the handshake to its end. Its requests follow each other on one stream with one
// buffer, one timer and one place among the connections; that is why it is one class. `Stream`: tcp::socket,
// or TLS on one.
template <typename Stream>
class Session final : public Places::Connection, public std::enable_shared_from_this<Session<Stream>> {
  static constexpr bool kTls = !std::is_same_v<Stream, tcp::socket>;

 public:
  Session(Shared& shared, Stream stream, Places::Place& place)
      : shared_(shared),
        stream_(std::move(stream)),
        timer_(stream_.get_executor()),
        place_(&place),
        reader_(shared.options.most_body, shared.bodies) {
    place.connection = this;
  }
  ~Session() override { finish(); }

  void start() {
    if constexpr (kTls) {
      deadline(timeout());
      stream_.async_handshake(net::ssl::stream_base::server,
                              then([](Session& session) { session.wait_for_request(); }));
    } else {
      wait_for_request();
    }
  }

  void evict() override {
    place_ = nullptr;
    finish();
  }
  void drain() override {
    if (events_ != nullptr || (!begun_ && !has_input())) finish();
  }
  void abort() override {
    if (!working_) finish();
  }

 private:
  std::shared_ptr<Session> self() { return this->shared_from_this(); }
  tcp::socket& socket() {
    if constexpr (kTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }
  // How long a request may take to arrive.
  Ms timeout() const {
    return place_->spare ? std::min(shared_.options.timeout, kSpareTimeout) : shared_.options.timeout;
  }
  // When it expires, the pending operation ends with an error, and late_ is set.
  void deadline(Ms most) {
    late_ = false;
    timer_.expires_after(most);
    timer_.async_wait([self = self(), turn = ++turn_](Code) {
      if (self->closed_ || turn != self->turn_) return;
      self->late_ = true;
      Code ignored;
      self->socket().cancel(ignored);
    });
  }
  void no_deadline() {
    ++turn_;
    timer_.cancel();
  }
  // A request is arriving: bytes are here or in the socket.
  bool has_input() {
    Code code;
    return reader_.has_input() || socket().available(code) > 0;
  }
  void finish() {
    if (std::exchange(closed_, true)) return;
    if (place_ != nullptr) shared_.places.release(*place_);
    no_deadline();
    Code ignored;
    socket().close(ignored);
  }

  // Ends the connection if an operation has failed; else goes on.
  template <typename Next>
  auto then(Next next) {
    return [self = self(), next = std::move(next)](Code code, std::size_t = 0) {
      if (self->closed_) return;
      if (code) return self->finish();
      next(*self);
    };
  }
  template <typename Next>
  void read(Next next) {
    stream_.async_read_some(reader_.prepare(), [self = self(), next](Code code, std::size_t bytes) {
      if (self->closed_) return;
      if (code) return self->read_failed(code);
      self->reader_.commit(bytes);
      (self.get()->*next)();
    });
  }
  void read_failed(const Code& code) {
    if (late_ && begun_) return refuse({408, kLate});
    if (in_body_ && code == net::error::eof)
      return refuse({400, "the request's body did not arrive as announced"});
    finish();
  }

  void wait_for_request() {
    begun_ = in_body_ = false;
    // A connection accepted just before the drain is also served if its request is already there.
    if (shared_.draining && !has_input()) return finish();
    shared_.places.waits(*place_);
    deadline(place_->spare ? timeout() : shared_.options.idle);
    if (reader_.has_input()) return begin_request();
    read(&Session::begin_request);
  }

  void begin_request() {
    begun_ = true;
    // A spare place can be lost until the complete head has arrived.
    if (!place_->spare) shared_.places.serves(*place_);
    deadline(timeout());  // for the complete request
    read_head();
  }

  void read_head() {
    bool whole = false;
    Request& request = reader_.request();
    try {
      whole = reader_.read_head();
      if (!whole) return read(&Session::read_head);
      request.peer = place_->peer;
      request.spare = place_->spare;
      request.connections = shared_.places.count();
      work_ = shared_.admit(request);
      shared_.places.serves(*place_);
    } catch (const Problem& why) {
      shared_.places.serves(*place_);
      // An unread body would be parsed as the next request.
      return !whole || request.has_body ? refuse(why) : answer(api::problem(why, request.path));
    }
    in_body_ = true;
    read_body(reader_.expects_continue());
  }

  void read_rest() { read_body(false); }
  void read_body(bool ask_for_it) {
    try {
      if (reader_.read_body()) return work();
    } catch (const Problem& why) {
      return refuse(why);
    }
    if (!ask_for_it) return read(&Session::read_rest);
    const auto go_on = std::make_shared<beast::response<beast::empty_body>>(beast::status::continue_, 11);
    beast::async_write(stream_, *go_on,
                       then([go_on](Session& session) { session.read(&Session::read_rest); }));
  }

  void work() {
    no_deadline();  // the handler limits its own waits
    working_ = true;
    shared_.workers.post([self = self()]() mutable {
      Response response = self->handled();
      auto& session = *self;
      net::post(session.stream_.get_executor(),
                [self = std::move(self), response = std::move(response)]() mutable {
                  self->shared_.workers.done();
                  self->working_ = false;
                  self->answer(std::move(response));
                });
    });
  }
  Response handled() {
    const Request& request = reader_.request();
    try {
      return std::exchange(work_, nullptr)(shared_.bodies);
    } catch (const std::exception&) {
      log::error("HTTP request failed with an exception",
                 {{"path", std::string_view(request.path).substr(0, 200)}});
      Response response = api::problem({500, "internal error"}, request.path);
      response.close = true;
      return response;
    }
  }

  void refuse(const Problem& why) {
    Response response = api::problem(why, reader_.request().path);
    response.close = true;
    answer(std::move(response));
  }

  void answer(Response from) {
    if (from.stream != nullptr && !reader_.is_head()) return stream(std::move(from));
    const bool close = from.close || place_->spare || shared_.draining || !reader_.keep_alive();
    const Ms linger_most = reader_.request().has_body ? kLingerOnBody : kLinger;
    const auto memory = from.memory;
    const auto response =
        std::make_shared<BeastResponse>(to_beast(std::move(from), close, reader_.is_head()));
    reader_.next();  // frees the body
    deadline(shared_.options.timeout);
    beast::async_write(stream_, *response, then([response, memory, close, linger_most](Session& session) {
                         if (close) return session.linger(linger_most);
                         session.wait_for_request();
                       }));
  }

  // Without a length: it ends with the connection.
  void stream(Response from) {
    events_ = std::move(from.stream);
    const auto head = std::make_shared<BeastResponse>(to_beast(std::move(from), true));
    head->content_length(boost::none);
    reader_.next();
    deadline(shared_.options.timeout);
    beast::async_write(stream_, *head, then([head](Session& session) {
                         session.watch_for_end();
                         session.send_events();
                       }));
  }
  void send_events() {
    auto text = events_();
    if (!text) return linger(kLinger);
    if (text->empty()) return wait_for_events();
    const auto kept = std::make_shared<const std::string>(*std::move(text));
    deadline(shared_.options.timeout);
    net::async_write(stream_, net::buffer(*kept),
                     then([kept](Session& session) { session.wait_for_events(); }));
  }
  void wait_for_events() {
    no_deadline();
    timer_.expires_after(kEventsEvery);
    timer_.async_wait(then([](Session& session) { session.send_events(); }));
  }
  // A client says no more, except that it goes.
  void watch_for_end() {
    stream_.async_read_some(reader_.prepare(), then([](Session& session) { session.watch_for_end(); }));
  }

  // Ends the connection so that the peer reads the response, not the reset that data it still sends would
  // cause.
  void linger(Ms most) {
    if (place_->spare) shared_.places.waits(*place_);
    deadline(most);
    if constexpr (kTls) {
      stream_.async_shutdown([self = self()](Code) { self->discard(); });
    } else {
      Code ignored;
      stream_.shutdown(tcp::socket::shutdown_send, ignored);
      discard();
    }
  }
  void discard() {
    if (closed_) return;
    if (late_ || discarded_ > kMostLinger) return finish();
    socket().async_read_some(reader_.prepare(), [self = self()](Code code, std::size_t bytes) {
      self->discarded_ += bytes;
      if (code) return self->finish();
      self->discard();
    });
  }

  Shared& shared_;
  Stream stream_;
  net::steady_timer timer_;
  Places::Place* place_;  // nullptr: it was given to another connection
  RequestReader reader_;
  std::uint64_t turn_ = 0;  // counts calls of deadline()
  std::size_t discarded_ = 0;
  bool late_ = false, closed_ = false;
  bool begun_ = false, in_body_ = false;  // a byte of the request has arrived; its head has
  Server::Work work_;                     // of the request
  bool working_ = false;                  // a worker has the request
  api::EventStream events_;               // the response, if it goes on
};

// Of the last call of OpenSSL that failed.
std::string tls_reason() {
  char text[200] = "unknown";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return text;
}

// The server's side of TLS: 1.3, and 1.2 with authenticated encryption and forward secrecy. `cert`, `key`:
// PEM files, a chain and its key without a password. Error: names the config key. Calls OpenSSL directly
// where Asio's calls would hide the reason of a failure.
Result<net::ssl::context> load_tls(const std::string& cert, const std::string& key) {
  ERR_clear_error();
  net::ssl::context context(net::ssl::context::tls_server);
  SSL_CTX* const ctx = context.native_handle();
  if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) return permanent("TLS: " + tls_reason());
  // TLS 1.3 has only authenticated encryption.
  if (SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1)
    return permanent("TLS: " + tls_reason());
  SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  // Never prompt for a password on the terminal.
  SSL_CTX_set_default_passwd_cb(ctx, [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_certificate_chain_file(ctx, cert.c_str()) != 1)
    return permanent("http.cert: " + cert + " holds no certificate (PEM): " + tls_reason());
  if (SSL_CTX_use_PrivateKey_file(ctx, key.c_str(), SSL_FILETYPE_PEM) != 1)
    return permanent("http.key: " + key +
                     " holds no private key (PEM, without a password) that fits http.cert: " + tls_reason());
  return context;
}

constexpr std::int64_t kMostBodies = 64 << 20;  // bytes
constexpr Ms kAcceptAgain{10};
constexpr int kBacklog = 256;

// Child processes must not inherit the sockets.
void close_on_exec(int fd) { fcntl(fd, F_SETFD, FD_CLOEXEC); }

// "10.0.0.3", also for IPv4 peers of an IPv6 socket.
std::string text_of(const net::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return net::ip::make_address_v4(net::ip::v4_mapped, address.to_v6()).to_string();
}

class HttpServer final : public Server {
 public:
  HttpServer(const ServerOptions& options, Admit admit)
      : shared_{options, std::move(admit), Places(options.connections, options.connections_of_one_address()),
                Budget(kMostBodies)} {}

  Result<void> begin() {
    const ServerOptions& options = shared_.options;
    if (!options.cert.empty()) {
      auto tls = load_tls(options.cert, options.key);
      if (!tls) return tl::unexpected(tls.error());
      tls_ = *std::move(tls);
    }
    if (auto listening = listen(options); !listening) return listening;
    accept();
    thread_ = std::thread([this] { run(); });
    return {};
  }

  Result<void> reload_certificate() override {
    const ServerOptions& options = shared_.options;
    if (options.cert.empty()) return {};
    auto tls = load_tls(options.cert, options.key);
    if (!tls) return tl::unexpected(tls.error());
    auto fresh = std::make_shared<net::ssl::context>(*std::move(tls));
    net::post(io_, [this, fresh] { *tls_ = std::move(*fresh); });  // open connections keep the old one
    return {};
  }

  int port() const override { return port_; }
  int connections() const override { return shared_.places.count(); }

  void drain() override {
    net::post(io_, [this] { close_down(); });
  }

  bool stop(Ms most) override {
    std::promise<void> closed;
    net::post(io_, [&] {
      close_down();
      closed.set_value();
    });
    closed.get_future().wait();
    if (!shared_.places.wait_until_empty(most)) {
      net::post(io_, [this] {
        for (Places::Connection* one : shared_.places.connections()) one->abort();
      });
      if (!shared_.places.wait_until_empty(Ms{200})) return false;
    }
    running_.reset();
    if (thread_.joinable()) thread_.join();
    shared_.workers.join();
    return true;
  }

 private:
  Result<void> listen(const ServerOptions& options) {
    const std::string where = options.host + ":" + std::to_string(options.port);
    Code code;
    const auto found =
        tcp::resolver(io_).resolve(options.host, std::to_string(options.port), tcp::resolver::passive, code);
    if (code || found.empty()) return permanent("http.listen: " + where + ": " + code.message());
    const tcp::endpoint endpoint = found.begin()->endpoint();
    if (!endpoint.address().is_loopback() && !options.beyond_this_machine)
      return permanent("http.listen: " + options.host +
                       " is not a loopback address: set http.token_file, http.tokens_file or http.oidc");
    acceptor_.open(endpoint.protocol(), code);
    if (!code) acceptor_.set_option(net::socket_base::reuse_address(true), code);
    if (!code) acceptor_.bind(endpoint, code);
    if (!code) acceptor_.listen(kBacklog, code);
    if (code) return permanent("http.listen: cannot listen on " + where + ": " + code.message());
    close_on_exec(acceptor_.native_handle());
    port_ = acceptor_.local_endpoint().port();
    return {};
  }

  void run() {
    while (true) {
      try {
        io_.run();
        return;
      } catch (const std::exception& e) {
        // The exception came from one connection and ended it.
        log::error("HTTP connection ended by an exception", {{"what", e.what()}});
      }
    }
  }

  void accept() {
    acceptor_.async_accept([this](Code code, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (!code) {
        take(std::move(socket));
        return accept();
      }
      // No file descriptor left, or the connection ended before it was accepted: retry a little later.
      accept_again_.expires_after(kAcceptAgain);
      accept_again_.async_wait([this](Code) {
        if (acceptor_.is_open()) accept();
      });
    });
  }

  void take(tcp::socket socket) {
    Code code;
    close_on_exec(socket.native_handle());
    const tcp::endpoint peer = socket.remote_endpoint(code);
    if (code) return;
    socket.set_option(tcp::no_delay(true), code);
    Places::Place* const place = shared_.places.take(text_of(peer.address()));
    if (place == nullptr) return turn_away(std::move(socket));
    // Serves it until it ends, and releases the place then.
    if (!tls_) return std::make_shared<Session<tcp::socket>>(shared_, std::move(socket), *place)->start();
    using TlsStream = net::ssl::stream<tcp::socket>;
    std::make_shared<Session<TlsStream>>(shared_, TlsStream(std::move(socket), *tls_), *place)->start();
  }

  void turn_away(tcp::socket socket) const {
    if (tls_) return;
    Response response = api::problem({503, "all connections are in use (http.connections)"}, "");
    Code ignored;
    socket.non_blocking(true, ignored);  // the data fits, or is not sent
    beast::write(socket, to_beast(std::move(response), true), ignored);
    socket.shutdown(tcp::socket::shutdown_send, ignored);
  }

  // I/O thread.
  void close_down() {
    shared_.draining = true;
    Code ignored;
    acceptor_.close(ignored);
    for (Places::Connection* one : shared_.places.connections()) one->drain();
  }

  Shared shared_;
  net::io_context io_{1};
  net::executor_work_guard<net::io_context::executor_type> running_{io_.get_executor()};
  tcp::acceptor acceptor_{io_};
  net::steady_timer accept_again_{io_};
  std::optional<net::ssl::context> tls_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options, Admit admit) {
  auto server = std::make_unique<HttpServer>(options, std::move(admit));
  if (auto begun = server->begin(); !begun) return tl::unexpected(begun.error());
  return std::unique_ptr<Server>(std::move(server));
}

Places::Place* Places::take(const std::string& peer) {
  for (const bool spare : {false, true}) {
    if (!make_room(spare, peer)) continue;
    Place& place = places_.emplace_back(Place{peer, spare});
    waits(place);
    const std::lock_guard lock(mutex_);
    ++count_;
    return &place;
  }
  return nullptr;
}

int Places::count(bool spare, std::string_view peer) const {
  return static_cast<int>(std::ranges::count_if(
      places_, [&](const Place& p) { return p.spare == spare && (peer.empty() || p.peer == peer); }));
}

bool Places::make_room(bool spare, std::string_view peer) {
  // An address that has used up its share gives up one of its own places.
  const bool own = count(spare, peer) >= (spare ? kSpareOfOneAddress : most_of_one_address_);
  if (!own && count(spare) < (spare ? kSpare : most_)) return true;
  Place* oldest = nullptr;
  for (Place& p : places_) {
    if (p.spare != spare || p.waiting_since == 0 || (own && p.peer != peer)) continue;
    if (oldest == nullptr || p.waiting_since < oldest->waiting_since) oldest = &p;
  }
  if (oldest == nullptr) return false;
  Connection* const connection = oldest->connection;
  release(*oldest);
  connection->evict();
  return true;
}

void Places::release(Place& place) {
  places_.remove_if([&](const Place& p) { return &p == &place; });
  const std::lock_guard lock(mutex_);
  --count_;
  released_.notify_all();
}

std::vector<Places::Connection*> Places::connections() const {
  std::vector<Connection*> all;
  for (const Place& p : places_) all.push_back(p.connection);
  return all;
}

int Places::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

bool Places::wait_until_empty(Ms most) {
  std::unique_lock lock(mutex_);
  return released_.wait_for(lock, most, [&] { return count_ == 0; });
}

}  // namespace rung::http
