// A request and a response as the API sees them, what a request names (path, query, host), and errors as in
// RFC 9457: application/problem+json that says what is wrong and what would be right. The server of src/http
// creates requests and sends responses. Thread: values; pure functions.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/api/base/fields.h"
#include "src/core/base/result.h"

namespace rung::api {

// A response that goes on: server-sent events.
class EventStream {
 public:
  virtual ~EventStream() = default;
  // What is to be sent now, "" = nothing; none: the stream has ended. Asked for a few times a second; must
  // not block.
  virtual std::optional<std::string> take() = 0;
};

struct Request {
  std::string method, path;  // the path decoded, without the query
  // Then `path` is as it was received: a proxy that compares paths takes the slash for part of a segment. The
  // same if it cannot be decoded; it matches no path of ours then.
  bool has_encoded_slash = false;
  Pairs query;  // decoded, in the order received
  // The headers that we use; "" if missing. `authorization` holds a secret: only Access reads it, and it is
  // neither logged nor returned.
  std::string authorization, host, origin, content_type, content_encoding;
  std::optional<std::string> if_match;
  // Of a browser: its cookies (src/http/access/access.h; secret), the headers X-Rung-CSRF, Sec-Fetch-Site,
  // Last-Event-ID.
  std::string cookies, csrf, fetch_site, last_event_id, if_none_match;
  bool has_body = false;
  std::string_view body;  // valid during the call
  std::string peer;       // the client's address
  bool spare = false;     // all connections are in use: only probes are answered
  int connections = 0;    // that are open
};

struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  Pairs headers;
  bool close = false;                        // close the connection after it
  std::shared_ptr<EventStream> stream = {};  // sent instead of `body`, until it ends
  std::shared_ptr<void> memory = {};         // what `body` counts for, until it is sent
  std::optional<Error> error = {};           // of a store: why there is no better answer
};

// The path and the query of a target: percent-decoded, NAME=VALUE split at the first =, a + of the query is a
// space. Throws a 400.
void read_target(std::string_view target, Request& request);

// A segment of the request's path, decoded; it may contain a slash then.
std::string decode_segment(std::string_view segment, const Request& request);

// The value of a cookie in the header Cookie; "" = it is not there.
std::string cookie_named(std::string_view name, std::string_view header);

// Whether a Host header is a name or an address, with or without a port: no user, path or percent-encoding.
bool is_host(std::string_view text);

// "Bad Request": the title of a status.
std::string_view title_of(int status);

// "state_conflict": what went wrong, for scripts, where no better one is given (member `code`). In
// docs/http.md.
std::string_view code_of(int status);

// Why a request is refused, or cannot be answered. It is thrown, and ends the request: the router and the
// server make the response of it.
struct Problem : std::exception {
  // `also`: further members. `with`: headers of the response.
  Problem(int of, std::string why, Json also = Json(), Pairs with = {})
      : status(of), detail(std::move(why)), more(std::move(also)), headers(std::move(with)) {}
  // The detail names the first error, the member `errors` all of them.
  explicit Problem(const FieldErrors& errors);
  // Of a store or the bridge: transient is 503, not_found 404, the rest 500.
  explicit Problem(Error of);
  const char* what() const noexcept override { return detail.c_str(); }

  // The object alone: bulk responses contain one per item.
  Json json(std::string_view instance) const;

  int status;
  std::string detail;
  Json more;
  Pairs headers;
  std::optional<Error> error = {};
};
// Of a 503 without headers: with Retry-After.
Response problem(const Problem& of, std::string_view instance);
// The value; throws the error.
template <typename T>
T need(Result<T> result) {
  return value_or_throw<Problem>(std::move(result));
}

// Escapes control and format characters in the texts: responses are shown on terminals, too.
Response answer(int status, const Json& json, Pairs headers = {});

}  // namespace rung::api
