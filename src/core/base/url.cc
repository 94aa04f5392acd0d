#include "src/core/base/url.h"

#include <arpa/inet.h>
#include <re2/re2.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "src/core/base/hex.h"

namespace rung {
namespace {

// Errors never quote the text: in a malformed URL any part of it may belong to the password.
constexpr std::string_view kUrlForm = "write scheme://user:password@host:port/path";
constexpr std::string_view kUrlHint =
    "; an @ / ? # or % in a password or path is written %40 %2F %3F %23 %25";

// `text` is replaced by what it stands for.
Result<void> decode(std::string& text, std::string_view part) {
  auto out = percent_decode(text);
  if (!out) {
    return permanent("in the " + std::string(part) +
                     " of the URL a % is not followed by two hex digits: write %25 for a %");
  }
  if (out->find('\0') != std::string::npos)
    return permanent("the " + std::string(part) + " of the URL contains a NUL (%00)");
  text = *std::move(out);
  return {};
}

Result<void> parse_query(std::string_view text, Url& url) {
  static const RE2 pair("&*([^&=]*)=?([^&]*)", RE2::Latin1);
  std::string key, value;
  for (re2::StringPiece rest(text.data(), text.size());
       !rest.empty() && RE2::Consume(&rest, pair, &key, &value);) {
    for (std::string* each : {&key, &value}) {
      if (auto ok = decode(*each, "query"); !ok) return ok;
    }
    if (!key.empty() || !value.empty()) url.query[key] = value;
  }
  return {};
}

std::optional<int> port_of(const std::string& digits) {
  int port = 0;
  const bool good = RE2::FullMatch(digits, "(\\d{1,5})", &port) && port >= 1 && port <= 65535;
  return good ? std::optional(port) : std::nullopt;
}

}  // namespace

std::string Url::host_port(int fallback_port) const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port != 0 ? port : fallback_port);
}

Result<Url> parse_url(std::string_view text) {
  if (text.empty()) return permanent("the URL is empty");
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; })) {
    return permanent("the URL contains a space or a control character: write %20 for a space");
  }
  // The user ends at the first colon, the password at the last @ before the path.
  static const RE2 form(R"(([A-Za-z][A-Za-z0-9+.-]*)://(?:([^:/?#]*)(?::([^/?#]*))?@)?)"
                        R"((\[[^\]/?#@]*\]|[^:/?#@]*)(:[^/?#@]*)?(?:/([^?#@]*))?(?:\?([^#@]*))?)",
                        RE2::Latin1);
  static const RE2 name(R"([A-Za-z0-9._-]+|\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\])", RE2::Latin1);
  Url url;
  std::string port, query;
  if (!RE2::FullMatch({text.data(), text.size()}, form, &url.scheme, &url.user, &url.password, &url.host,
                      &port, &url.path, &query))
    return permanent("not a URL that Rung can use: " + std::string(kUrlForm) + std::string(kUrlHint));
  std::ranges::transform(url.scheme, url.scheme.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (!RE2::FullMatch(url.host, name))
    return permanent("the URL has no host, or one with an invalid character: " + std::string(kUrlForm) +
                     ", an IPv6 address in []" + std::string(kUrlHint));
  if (url.host.starts_with('[')) url.host = url.host.substr(1, url.host.size() - 2);
  if (!port.empty()) {
    const auto number = port_of(port.substr(1));
    if (!number) return permanent("the URL's port is not a number from 1 to 65535" + std::string(kUrlHint));
    url.port = *number;
  }
  for (const auto& [part, text_of] :
       {std::pair{"user", &url.user}, {"password", &url.password}, {"path", &url.path}}) {
    if (auto ok = decode(*text_of, part); !ok) return tl::unexpected(ok.error());
  }
  if (auto ok = parse_query(query, url); !ok) return tl::unexpected(ok.error());
  return url;
}

bool is_loopback(const std::string& host) {
  constexpr unsigned kNetShift = 24, kLoopbackNet = 127;
  in_addr four{};
  return host == "localhost" || host == "::1" ||
         (inet_pton(AF_INET, host.c_str(), &four) == 1 && ntohl(four.s_addr) >> kNetShift == kLoopbackNet);
}

std::string format_url(const Url& url) {
  std::string out = url.scheme + "://";
  if (!url.user.empty() || !url.password.empty()) {
    out += percent_encode(url.user);
    if (!url.password.empty()) out += ":" + percent_encode(url.password);
    out += "@";
  }
  out += url.host.find(':') != std::string::npos ? "[" + url.host + "]" : url.host;
  if (url.port != 0) out += ":" + std::to_string(url.port);
  if (!url.path.empty()) out += "/" + percent_encode(url.path);
  char separator = '?';
  for (const auto& [key, value] : url.query) {
    out += separator + percent_encode(key) + "=" + percent_encode(value);
    separator = '&';
  }
  return out;
}

std::string hide_password(std::string_view url) {
  // To the last "@": in a URL that does not parse, everything before it may be password.
  static const RE2 login("(?s)^([^:]*):.*@", RE2::Latin1);
  // No "@": user:password without a host, unless a port follows the colon.
  static const RE2 no_host("(?s)((?:[^@:/?#\\[][^@:/?#]*)?):([^@/?#]*)[^@]*", RE2::Latin1);
  static const RE2 query("(?i)([?&][^&=]*(?:pass|pwd|secret|token|key)[^&=]*=)[^&]*", RE2::Latin1);
  const auto scheme_end = url.find("://");
  const std::size_t start = scheme_end == std::string_view::npos ? 0 : scheme_end + 3;
  std::string rest(url.substr(start)), user, port;
  if (!RE2::Replace(&rest, login, "\\1:***@") && RE2::FullMatch(rest, no_host, &user, &port) &&
      !port_of(port))
    rest = user + ":***";
  RE2::GlobalReplace(&rest, query, "\\1***");
  return std::string(url.substr(0, start)) + rest;
}

}  // namespace rung
