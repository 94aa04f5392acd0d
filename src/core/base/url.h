// URLs of services, as a user writes them: amqp://user:password@host:port/vhost, mysql://..., http://...
// Thread: pure functions. No error and no masked text contains any part of the password, however malformed
// the URL is.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/result.h"

namespace rung {

struct Url {
  std::string scheme;                // lower case
  std::string user, password, host;  // decoded; host without the brackets of an IPv6 address
  int port = 0;                      // 0 = none given
  std::string path;                  // without the leading slash, percent-decoded: "%2f" -> "/"; "" = none
  std::map<std::string, std::string> query;
  bool operator==(const Url&) const = default;

  // For a URL whose path names a virtual host: both scheme://host and scheme://host/ mean "/".
  std::string vhost() const { return path.empty() ? "/" : path; }
  // "host:port", with brackets where the host is an IPv6 address: for messages and Host headers.
  std::string host_port(int fallback_port) const;
};

// scheme://[user[:password]@]host[:port][/path][?key=value&...]. An "@", "/", "?", "#" or "%" in a password
// must be percent-encoded ("%40", "%2F", "%3F", "%23", "%25"). A lone "@" after the host is rejected: most
// likely it belongs to a password that was not encoded.
Result<Url> parse_url(std::string_view text);

// The inverse of parse_url.
std::string format_url(const Url& url);

// "localhost", "::1", 127.0.0.0/8.
bool is_loopback(const std::string& host);

// `url` with "***" in place of its password and of query values whose name suggests one, even if it does not
// parse.
std::string hide_password(std::string_view url);

}  // namespace rung
