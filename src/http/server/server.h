// The HTTP server, built on Boost.Beast (HTTP) and Boost.Asio (sockets, timers, TLS, threads). We add the
// limits: the number of connections, which one is evicted, the time for a request, and the memory for bodies.
// Thread: start(), drain() and stop() any. `admit` runs on the I/O thread and must not block; the work that
// it returns runs on a worker, many at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "src/api/base/message.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/http/server/budget.h"

namespace rung::http {

using api::Request;
using api::Response;

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;                       // 0 = any
  std::string cert, key;              // both: TLS
  std::size_t most_body = 16u << 20;  // maximum bytes of a request's body
  // Each may have a worker thread. For a further one, the connection that has waited longest for a request is
  // closed. If none is waiting, it gets a spare place (places.h), and its Request is `spare`.
  int connections = 64;
  int connections_per_address = 0;       // of them; 0 = three quarters
  Ms timeout{std::chrono::seconds{10}};  // to receive a request, and to send its response
  Ms idle{std::chrono::seconds{60}};     // between two requests
  bool beyond_this_machine = false;      // allows an address that other machines can reach

  int connections_of_one_address() const {
    const int share = connections_per_address > 0 ? connections_per_address : connections * 3 / 4;
    return share < 1 ? 1 : share > connections ? connections : share;
  }
};

class Server {
 public:
  // `texts`: the budget of all bodies; the response's share of it is its `memory`.
  using Work = std::function<Response(Budget& texts)>;
  // Called when the head has arrived. The work is done when the body is there too, and the request stays
  // where it is until then; a problem that it throws ends the request before its body is read.
  using Admit = std::function<Work(const Request&)>;

  // Error: the address, the certificate.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options, Admit admit);
  virtual ~Server() = default;  // REQUIRES: stop() has returned true

  // Reads certificate and key again, for connections accepted from now on. Error: as load_tls().
  virtual Result<void> reload_certificate() = 0;
  virtual int port() const = 0;
  virtual int connections() const = 0;
  // Accepts no new connection; each existing one ends with the response to its current request.
  virtual void drain() = 0;
  // Ends all connections; false if one was still busy after `most`.
  virtual bool stop(Ms most) = 0;
};

}  // namespace rung::http
