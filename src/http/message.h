// A request as the API sees it, and its answer. The server (server.h) makes the one and takes the other.
// Thread: values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rung::http {

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method, path;  // the path decoded, without the query
  Pairs query;               // decoded, as they came
  // The headers that mean something to us; "" where they are not there. `authorization` holds a secret: it is
  // looked at by Access alone, and neither logged nor answered.
  std::string authorization, host, origin, content_type, content_encoding;
  std::optional<std::string> if_match;
  bool has_body = false;
  std::string_view body;  // for the length of the call
  std::string peer;       // the other side's address
  bool spare = false;     // all connections are in use: it is here for what needs no token alone
};

struct Response {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  Pairs headers;
  bool close = false;  // the connection ends with it
};

}  // namespace rung::http
