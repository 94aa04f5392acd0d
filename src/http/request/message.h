// A request and a response as the API sees them. The server (server.h) creates requests and sends responses.
// Thread: values.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/http/request/event_stream.h"

namespace rung::http {

using Pairs = std::vector<std::pair<std::string, std::string>>;

// The cookie of a browser that has signed in.
inline constexpr std::string_view kSignInCookie = "rung_session";
// Of a login at the identity provider that is under way: its state, so that nobody can be signed in by a
// link.
inline constexpr std::string_view kLoginCookie = "rung_login";

struct Request {
  std::string method, path;        // the path decoded, without the query
  bool has_encoded_slash = false;  // then `path` is as it was received
  Pairs query;                     // decoded, in the order received
  // The headers that we use; "" if missing. `authorization` holds a secret: only Access reads it, and it is
  // neither logged nor returned.
  std::string authorization, host, origin, content_type, content_encoding;
  std::optional<std::string> if_match;
  // Of a browser: the cookies of a sign-in and of a login under way (secret), the header X-Rung-CSRF,
  // Sec-Fetch-Site, Last-Event-ID.
  std::string cookie, login_cookie, csrf, fetch_site, last_event_id, if_none_match;
  bool has_body = false;
  std::string_view body;  // valid during the call
  std::string peer;       // the client's address
  bool spare = false;     // all connections are in use: only probes are answered
};

struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  Pairs headers;
  bool close = false;                        // close the connection after it
  std::shared_ptr<EventStream> stream = {};  // sent instead of `body`, until it ends
};

}  // namespace rung::http
