// One connection: its requests, one after the other, each with its deadlines. Everything runs on the server's
// I/O thread without blocking. A worker handles each complete request, and its response comes back. Thread:
// the I/O thread.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdint>

#include "src/api/base/message.h"
#include "src/http/server/budget.h"
#include "src/http/server/places.h"
#include "src/http/server/server.h"
#include "src/http/server/workers.h"

namespace rung::http {

// Shared by the connections of a server.
struct Shared {
  const ServerOptions options;
  const Server::Admit admit;  // on the I/O thread: it must not block
  Places places;
  Budget bodies;  // of all requests and responses together, except small ones (kSmallBody)
  Workers workers = {};
  bool draining = false;
};

using BeastResponse = boost::beast::http::response<boost::beast::http::string_body>;
// `without_body`: for HEAD.
BeastResponse to_beast(Response from, bool close, bool without_body = false);

// Serves the connection until it ends, and releases `place` then. `tls`: nullptr = plain.
// REQUIRES: `shared` and `tls` outlive it.
void serve(Shared& shared, boost::asio::ip::tcp::socket socket, Places::Place& place,
           boost::asio::ssl::context* tls);

}  // namespace rung::http
