// Parses the bytes of one connection into requests. Boost.Beast is the parser; we add limits and rules that
// are stricter than its own: no folded header line, no duplicate of a header that matters, one length.
//
//   reader.commit(bytes put into reader.prepare());
//   read_head() until it is true: request() is known, but for its body
//   read_body() until it is true: request().body is there
//   next(), for the connection's next request
//
// Both are false where bytes are missing. They throw a Problem if they refuse the request: it ends the
// connection, for the start of the next request is unknown.
// Thread: one at a time.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "src/http/server/server.h"

namespace rung::http {

class RequestReader {
 public:
  // `most_body`: maximum bytes of a request's body. `bodies`: the budget of all bodies.
  // REQUIRES: `bodies` outlives it.
  RequestReader(std::size_t most_body, Budget& bodies);

  boost::asio::mutable_buffer prepare();
  void commit(std::size_t bytes) { buffer_.commit(bytes); }
  bool has_input() const { return buffer_.size() > 0; }

  bool read_head();
  // REQUIRES: read_head() was true. If there is no room for the body, refuses it before reading any of it.
  bool read_body();
  void next();

  // REQUIRES, here and below: read_head() was true.
  Request& request() { return request_; }
  bool is_head() const { return is_head_; }        // the response has no body
  bool keep_alive() const { return keep_alive_; }  // as far as the client is concerned
  bool expects_continue() const;                   // the client expects "100 Continue" before the body

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using Code = boost::beast::error_code;

  [[noreturn]] void refuse_body(const Code& why) const;
  std::string_view field(boost::beast::http::field name) const;
  void take_head();
  bool make_room(std::size_t bytes);

  const std::size_t most_body_;
  Budget& bodies_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::optional<Budget::Share> share_;  // the body's share of bodies_
  std::size_t head_bytes_ = 0;
  bool is_head_ = false, keep_alive_ = false;
  Request request_;
};

}  // namespace rung::http
