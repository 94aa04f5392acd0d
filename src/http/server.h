// The HTTP server, of Boost.Beast (HTTP) and Boost.Asio (sockets, timers, TLS, threads). Ours are the limits:
// how many connections, which of them gives way, how long a request may take, and how much memory bodies may
// hold. Thread: start(), drain() and stop() any. `admit` runs on the I/O thread and must not block; `handle`
// runs on a worker, many at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "src/core/result.h"
#include "src/core/time.h"
#include "src/http/message.h"

namespace rung::http {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                       // 0 = any
  std::string cert, key;              // both: TLS
  std::size_t most_body = 16u << 20;  // bytes of a request
  // Each may have a worker thread. For a further one, the connection that waits longest for a request is
  // ended; where none waits, it gets a spare place (places.h), and its Request is `spare`.
  int connections = 64;
  int connections_per_address = 0;       // of them; 0 = three quarters
  Ms timeout{std::chrono::seconds{10}};  // for a request to arrive, and for its answer to be taken
  Ms idle{std::chrono::seconds{60}};     // between two requests
  bool beyond_this_machine = false;      // also an address that others reach

  int connections_of_one_address() const {
    const int share = connections_per_address > 0 ? connections_per_address : connections * 3 / 4;
    return share < 1 ? 1 : share > connections ? connections : share;
  }
};

class Server {
 public:
  // Asked when the header is there; an answer ends it before the body is read.
  using Admit = std::function<std::optional<Response>(const Request&)>;
  using Handle = std::function<Response(const Request&)>;

  // Error: the address, the certificate.
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Admit admit, Handle handle);
  virtual ~Server() = default;  // REQUIRES: stop() has returned true

  virtual int port() const = 0;
  virtual int connections() const = 0;
  // Takes no new connection; each ends with the answer to the request that it is at.
  virtual void drain() = 0;
  // Ends them all; false where one was still at work after `most`.
  virtual bool stop(Ms most) = 0;
};

}  // namespace rung::http
