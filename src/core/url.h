// URLs of services, as a user writes them: amqp://user:password@host:port/vhost, mysql://..., http://...
// Thread: pure functions. No error and no hidden text ever holds a part of the password, however the URL is
// broken.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/result.h"

namespace rung {

struct Url {
  std::string scheme;                // lower case
  std::string user, password, host;  // decoded; host without the brackets of an IPv6 address
  int port = 0;                      // 0 = none given
  std::string path;  // without the leading slash, percent-decoded: "%2f" -> "/", "" where there is none
  std::map<std::string, std::string> query;
  bool operator==(const Url&) const = default;

  // Of a URL whose path names a virtual host: both scheme://host and scheme://host/ mean "/".
  std::string vhost() const { return path.empty() ? "/" : path; }
  // "host:port", with brackets where the host is an IPv6 address: for messages and Host headers.
  std::string host_port(int fallback_port) const;
};

// scheme://[user[:password]@]host[:port][/path][?key=value&...]. An "@", "/", "?", "#" or "%" that belongs to
// a password is percent-encoded ("%40", "%2F", "%3F", "%23", "%25"): a lone "@" after the host is refused,
// since it is most likely a password that was not.
Result<Url> parse_url(std::string_view text);

// The URLs of one service.
Result<std::vector<Url>> parse_urls(const std::string& first, const std::vector<std::string>& others);

// What parse_url takes back.
std::string format_url(const Url& url);

// All but unreserved characters become %XX.
std::string percent_encode(std::string_view text);

// `url` with "***" for its password and for whatever in its query is named like one; also where it does not
// parse.
std::string hide_password(std::string_view url);

}  // namespace rung
