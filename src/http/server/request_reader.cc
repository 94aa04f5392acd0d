#include "src/http/server/request_reader.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <iterator>
#include <limits>

namespace rung::http {
namespace {

namespace beast = boost::beast::http;
using api::Problem;
using beast::field;
using boost::beast::iequals;

constexpr std::size_t kMostHead = 16 * 1024;
constexpr std::size_t kMostHeadLines = 100;
constexpr std::size_t kReadSize = 64 * 1024;

// If one of these came twice, two readers could each use a different one.
constexpr field kOnlyOnce[] = {
    field::host,     field::content_length, field::transfer_encoding, field::content_type,
    field::if_match, field::authorization,  field::content_encoding,  field::origin,
    field::cookie};

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

[[noreturn]] void refuse_head(const boost::beast::error_code& why) {
  if (why == beast::error::header_limit)
    throw Problem(431, "the request's header is over 16 KB or has more than 100 lines");
  if (why == beast::error::bad_content_length || why == beast::error::bad_transfer_encoding)
    throw Problem(
        400, "invalid body length: send either Content-Length, a number, or Transfer-Encoding: chunked (" +
                 why.message() + ")");
  throw Problem(400, "not an HTTP request (" + why.message() +
                         "): a line must end with CR LF; a header must be NAME: VALUE on one line, without a "
                         "space before the colon and without control characters");
}

}  // namespace

RequestReader::RequestReader(std::size_t most_body, Budget& bodies) : most_body_(most_body), bodies_(bodies) {
  next();
}

void RequestReader::next() {
  parser_.emplace();
  parser_->header_limit(kMostHead);
  // Until the head is read: an excessive length has its own response.
  // (None would refuse every length.)
  parser_->body_limit(std::numeric_limits<std::uint64_t>::max());
  parser_->eager(false);  // stop after the head
  share_.emplace(bodies_);
  head_bytes_ = 0;
  request_ = {};
}

boost::asio::mutable_buffer RequestReader::prepare() {
  return buffer_.prepare(parser_->is_header_done() ? kReadSize : kMostHead);
}

bool RequestReader::read_head() {
  while (!parser_->is_header_done()) {
    std::string_view input(static_cast<const char*>(buffer_.data().data()), buffer_.size());
    // Some clients send an empty line after a body.
    if (!parser_->got_some() && input == "\r") return false;
    if (!parser_->got_some() && input.starts_with("\r\n")) {
      buffer_.consume(2);
      input.remove_prefix(2);
    }
    if (input.empty()) return false;
    Code why;
    const std::size_t taken = parser_->put(buffer_.data(), why);
    // Beast joins a folded line to the previous one. A proxy may see a separate header there.
    const std::string_view lines = input.substr(0, taken);
    const bool folded =
        lines.find("\r\n ") != std::string_view::npos || lines.find("\r\n\t") != std::string_view::npos;
    buffer_.consume(taken);
    // Beast limits the bytes that it has not consumed yet, not the sum.
    head_bytes_ += taken;
    if (head_bytes_ + (why == beast::error::need_more ? buffer_.size() : 0) > kMostHead)
      refuse_head(beast::error::header_limit);
    if (folded) refuse_head(beast::error::bad_line_ending);
    if (why == beast::error::need_more) return false;
    if (why) refuse_head(why);
  }
  take_head();
  return true;
}

std::string_view RequestReader::field(beast::field name) const { return view(parser_->get()[name]); }

void RequestReader::take_head() {
  const auto& head = parser_->get();
  if (static_cast<std::size_t>(std::distance(head.begin(), head.end())) > kMostHeadLines)
    refuse_head(beast::error::header_limit);
  for (const beast::field name : kOnlyOnce) {
    if (head.count(name) > 1)
      throw Problem(400, "the header " + std::string(view(beast::to_string(name))) + " is given twice");
  }
  // Beast accepts "4, 4" as 4, as the RFC allows.
  const std::string_view length = field(field::content_length);
  if (length.find_first_not_of("0123456789") != std::string_view::npos)
    refuse_head(beast::error::bad_content_length);
  const bool is_1_1 = head.version() == 11;
  const bool has_host = head.count(field::host) > 0;
  request_.host = field(field::host);
  std::string_view target = view(head.target());
  // As to a proxy: Host does not count then (RFC 9112, 3.2.2).
  if (const std::size_t scheme = target.find("://");
      scheme != std::string_view::npos && scheme > 0 && target.front() != '/') {
    target.remove_prefix(scheme + 3);
    request_.host = target.substr(0, target.find_first_of("/?"));
    target.remove_prefix(request_.host.size());
  }
  if (has_host && (!api::is_host(field(field::host)) || !api::is_host(request_.host)))
    throw Problem(400, "Host must be a name or an address, with or without a port: rung.example:8025");

  is_head_ = head.method() == beast::verb::head;
  keep_alive_ = is_1_1 && parser_->keep_alive();
  request_.method = is_head_ ? "GET" : std::string(view(head.method_string()));
  api::read_target(target, request_);
  request_.authorization = field(field::authorization);
  if (head.count(field::if_match) > 0) request_.if_match = field(field::if_match);
  request_.origin = field(field::origin);
  request_.content_type = field(field::content_type);
  request_.content_encoding = field(field::content_encoding);
  request_.cookies = field(field::cookie);
  request_.csrf = view(head["X-Rung-CSRF"]);
  request_.fetch_site = view(head["Sec-Fetch-Site"]);
  request_.last_event_id = view(head["Last-Event-ID"]);
  request_.if_none_match = field(field::if_none_match);
  const bool chunked = head.count(field::transfer_encoding) > 0;
  const std::uint64_t bytes = parser_->content_length().value_or(0);
  request_.has_body = chunked || bytes > 0;

  if (is_1_1 && !has_host) throw Problem(400, "an HTTP/1.1 request must have the header Host");
  if (request_.has_body && request_.method == "GET")
    throw Problem(400, (is_head_ ? "HEAD" : "GET") + std::string(" must not have a body"));
  if (chunked && !iequals(head[field::transfer_encoding], "chunked"))
    throw Problem(501, "only Transfer-Encoding: chunked is supported");
  if (bytes > most_body_) refuse_body(beast::error::body_limit);
  parser_->body_limit(most_body_);
}

bool RequestReader::expects_continue() const {
  const auto& head = parser_->get();
  return head.version() == 11 && iequals(head[field::expect], "100-continue") && !has_input();
}

bool RequestReader::read_body() {
  RUNG_REQUIRE(parser_ && share_);
  constexpr const char* kNoRoom = "too many large bodies are being read: try again later";
  const auto length = parser_->content_length().value_or(0);
  const bool counted = length > kSmallBody && share_->bytes() == 0;
  if (counted && !share_->grow(static_cast<std::int64_t>(length))) throw Problem(503, kNoRoom);
  parser_->eager(true);
  while (!parser_->is_done()) {
    if (buffer_.size() == 0) return false;
    if (length == 0 && !make_room(buffer_.size())) throw Problem(503, kNoRoom);
    Code why;
    buffer_.consume(parser_->put(buffer_.data(), why));
    if (why == beast::error::need_more) {
      // A chunk's first line, and the trailer, must arrive as a whole.
      if (buffer_.size() > kMostHead) refuse_body(beast::error::bad_chunk);
      return false;
    }
    if (why) refuse_body(why);
  }
  request_.body = parser_->get().body();
  return true;
}

// For a body whose length is not announced: counts it as it grows.
bool RequestReader::make_room(std::size_t bytes) {
  std::string& body = parser_->get().body();
  const std::size_t size = body.size() + bytes;
  if (size <= body.capacity()) return true;
  const std::size_t room = std::max({size, 2 * body.capacity(), kSmallBody});
  // Both buffers exist while it is copied.
  const std::size_t more = room - static_cast<std::size_t>(share_->bytes());
  if (room > kSmallBody && !share_->grow(static_cast<std::int64_t>(more))) return false;
  body.reserve(room);
  return true;
}

void RequestReader::refuse_body(const Code& why) const {
  if (why == beast::error::body_limit)
    throw Problem(413, "the body is over " + std::to_string(most_body_) + " bytes (http.max_body)");
  throw Problem(400, "invalid chunked encoding: " + why.message());
}

}  // namespace rung::http
