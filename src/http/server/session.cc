#include "src/http/server/session.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/write.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "src/api/base/message.h"
#include "src/http/server/request_reader.h"
#include "src/io/log.h"

namespace rung::http {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast::http;
using net::ip::tcp;
using Code = boost::system::error_code;
using State = RequestReader::State;

// Before closing, we read what the peer still sends: otherwise a reset could destroy the response unread.
constexpr Ms kLinger{500};
constexpr Ms kLingerOnBody{2000};  // also for the rest of a refused body
constexpr std::size_t kMostLinger = 32u << 20;
constexpr Ms kSpareTimeout{2000};  // for the request on a spare place

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
      stream_.async_handshake(net::ssl::stream_base::server, [self = self()](Code code) {
        if (self->closed_) return;
        if (code) return self->finish();
        self->wait_for_request();
      });
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
    if (late_ && begun_) return refuse(408, kLate);
    if (in_body_ && code == net::error::eof)
      return refuse(400, "the request's body did not arrive as announced");
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
    const State state = reader_.read_head();
    if (state == State::more) return read(&Session::read_head);
    shared_.places.serves(*place_);
    if (state == State::refused) return answer(reader_.refusal());
    Request& request = reader_.request();
    request.peer = place_->peer;
    request.spare = place_->spare;
    auto admitted = shared_.admit(request);
    if (!admitted) {
      Response no = std::move(admitted).error();
      no.close = no.close || request.has_body;  // an unread body would be parsed as the next request
      return answer(std::move(no));
    }
    work_ = *std::move(admitted);
    in_body_ = true;
    read_body(reader_.expects_continue());
  }

  void read_rest() { read_body(false); }
  void read_body(bool ask_for_it) {
    const State state = reader_.read_body();
    if (state == State::refused) return answer(reader_.refusal());
    if (state == State::ready) return work();
    if (!ask_for_it) return read(&Session::read_rest);
    const auto go_on = std::make_shared<beast::response<beast::empty_body>>(beast::status::continue_, 11);
    beast::async_write(stream_, *go_on, [self = self(), go_on](Code code, std::size_t) {
      if (self->closed_) return;
      if (code) return self->finish();
      self->read(&Session::read_rest);
    });
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
      Response response = problem(500, "internal error", request.path);
      response.close = true;
      return response;
    }
  }

  void refuse(int status, std::string_view detail) {
    Response response = problem(status, detail, reader_.request().path);
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
    beast::async_write(stream_, *response,
                       [self = self(), response, memory, close, linger_most](Code code, std::size_t) {
                         if (self->closed_) return;
                         if (code) return self->finish();
                         if (close) return self->linger(linger_most);
                         self->wait_for_request();
                       });
  }

  // Without a length: it ends with the connection.
  void stream(Response from) {
    events_ = std::move(from.stream);
    const auto head =
        std::make_shared<beast::response<beast::empty_body>>(static_cast<beast::status>(from.status), 11);
    for (const auto& [name, value] : from.headers) head->set(name, value);
    head->set(beast::field::content_type, from.type);
    head->set(beast::field::cache_control, "no-store");
    head->keep_alive(false);
    reader_.next();
    deadline(shared_.options.timeout);
    beast::async_write(stream_, *head, [self = self(), head](Code code, std::size_t) {
      if (self->closed_) return;
      if (code) return self->finish();
      self->no_deadline();
      self->events_->begin([weak = self->weak_from_this(), executor = self->stream_.get_executor()] {
        net::post(executor, [weak] {
          if (const auto session = weak.lock()) session->send_events();
        });
      });
      self->watch_for_end();
      self->send_events();
    });
  }
  void send_events() {
    if (closed_ || sending_) return;
    auto text = events_->take();
    if (!text) return linger(kLinger);
    if (text->empty()) return;
    sending_ = true;
    const auto kept = std::make_shared<const std::string>(*std::move(text));
    deadline(shared_.options.timeout);
    net::async_write(stream_, net::buffer(*kept), [self = self(), kept](Code code, std::size_t) {
      if (self->closed_) return;
      if (code) return self->finish();
      self->sending_ = false;
      self->no_deadline();
      self->send_events();
    });
  }
  // A client says no more, except that it goes.
  void watch_for_end() {
    stream_.async_read_some(reader_.prepare(), [self = self()](Code code, std::size_t) {
      if (self->closed_) return;
      if (code) return self->finish();
      self->watch_for_end();
    });
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
  bool begun_ = false, in_body_ = false;      // a byte of the request has arrived; its head has
  Server::Work work_;                         // of the request
  bool working_ = false;                      // a worker has the request
  std::shared_ptr<api::EventStream> events_;  // the response, if it goes on
  bool sending_ = false;                      // a part of it is being written
};

}  // namespace

BeastResponse to_beast(Response from, bool close, bool without_body) {
  BeastResponse to(static_cast<beast::status>(from.status), 11);
  for (const auto& [name, value] : from.headers) to.set(name, value);
  to.set(beast::field::content_type, from.type);
  if (to.find(beast::field::cache_control) == to.end()) to.set(beast::field::cache_control, "no-store");
  to.keep_alive(!close);
  to.content_length(from.body.size());
  if (!without_body) to.body() = std::move(from.body);
  return to;
}

void serve(Shared& shared, tcp::socket socket, Places::Place& place, net::ssl::context* tls) {
  if (tls == nullptr) {
    std::make_shared<Session<tcp::socket>>(shared, std::move(socket), place)->start();
    return;
  }
  using TlsStream = net::ssl::stream<tcp::socket>;
  std::make_shared<Session<TlsStream>>(shared, TlsStream(std::move(socket), *tls), place)->start();
}

}  // namespace rung::http
