#include "src/core/base/url.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>

#include "src/core/base/hex.h"

namespace rung {
namespace {

// Not <cctype>: its results depend on the locale, and a negative char is undefined behaviour.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

Result<std::string> decode(std::string_view text, std::string_view part) {
  auto out = percent_decode(text);
  if (!out) {
    return permanent("in the " + std::string(part) +
                     " of the URL a % is not followed by two hex digits: write %25 for a %");
  }
  if (out->find('\0') != std::string::npos)
    return permanent("the " + std::string(part) + " of the URL contains a NUL (%00)");
  return *std::move(out);
}

bool valid_host(std::string_view host) {
  return !host.empty() && std::ranges::all_of(host, [](char c) {
    return is_alpha(c) || is_digit(c) || c == '.' || c == '-' || c == '_';
  });
}

bool valid_ipv6(std::string_view host) {
  return host.find(':') != std::string_view::npos &&
         host.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
}

std::optional<int> parse_port(std::string_view text) {
  if (text.empty() || text.size() > 5 || !std::ranges::all_of(text, is_digit)) return std::nullopt;
  int port = 0;
  for (const char c : text) port = port * 10 + (c - '0');
  if (port < 1 || port > 65535) return std::nullopt;
  return port;
}

// Errors never quote the text: in a malformed URL any part of it may belong to the password.
constexpr std::string_view kHint = "; an @ / ? # or % in a password is written %40 %2F %3F %23 %25";

Result<void> parse_host_port(std::string_view text, Url& url) {
  std::string_view after;
  if (text.starts_with('[')) {
    const auto close = text.find(']');
    if (close == std::string_view::npos) return permanent("the URL's host begins with [ and has no ]");
    url.host = text.substr(1, close - 1);
    if (!valid_ipv6(url.host)) return permanent("the URL's brackets do not contain an IPv6 address");
    after = text.substr(close + 1);
  } else {
    const auto colon = text.find(':');
    url.host = text.substr(0, colon);
    if (url.host.empty())
      return permanent("the URL has no host: write scheme://user:password@host:port/path");
    if (!valid_host(url.host)) {
      return permanent(
          "the URL's host has an invalid character: only letters, digits, . - _ are allowed (an IPv6 address "
          "in [])" +
          std::string(kHint));
    }
    if (colon != std::string_view::npos) after = text.substr(colon);
  }
  if (after.empty()) return {};
  if (!after.starts_with(':')) return permanent("after the URL's host only :port or / can follow");
  const auto port = parse_port(after.substr(1));
  if (!port) return permanent("the URL's port is not a number from 1 to 65535" + std::string(kHint));
  url.port = *port;
  return {};
}

Result<void> parse_authority(std::string_view text, Url& url) {
  const auto at = text.rfind('@');
  if (at != std::string_view::npos) {
    const auto userinfo = text.substr(0, at);
    const auto colon = userinfo.find(':');
    auto user = decode(userinfo.substr(0, colon), "user");
    if (!user) return tl::unexpected(user.error());
    url.user = *std::move(user);
    if (colon != std::string_view::npos) {
      auto password = decode(userinfo.substr(colon + 1), "password");
      if (!password) return tl::unexpected(password.error());
      url.password = *std::move(password);
    }
    text.remove_prefix(at + 1);
  }
  return parse_host_port(text, url);
}

Result<void> parse_query(std::string_view text, Url& url) {
  while (!text.empty()) {
    const auto amp = text.find('&');
    const auto pair = text.substr(0, amp);
    text.remove_prefix(amp == std::string_view::npos ? text.size() : amp + 1);
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    auto key = decode(pair.substr(0, equals), "query");
    if (!key) return tl::unexpected(key.error());
    auto value = decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1), "query");
    if (!value) return tl::unexpected(value.error());
    url.query[*key] = *value;
  }
  return {};
}

Result<std::string> parse_scheme(std::string_view text) {
  const auto end = text.find("://");
  if (end == std::string_view::npos || end == 0) {
    return permanent("the URL has no scheme: write scheme://user:password@host:port/path");
  }
  std::string scheme(text.substr(0, end));
  std::ranges::transform(scheme, scheme.begin(), lower);
  const bool good = is_alpha(scheme[0]) && std::ranges::all_of(scheme, [](char c) {
                      return is_alpha(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
                    });
  if (!good) return permanent("the URL's scheme (before ://) may only contain letters, digits, + - .");
  return scheme;
}

bool names_a_secret(std::string_view key) {
  std::string low(key);
  std::ranges::transform(low, low.begin(), lower);
  return std::ranges::any_of(std::initializer_list<std::string_view>{"pass", "pwd", "secret", "token", "key"},
                             [&](std::string_view word) { return low.find(word) != std::string::npos; });
}

std::string hide_query(std::string_view query) {  // with its "?"
  std::string out;
  while (!query.empty()) {
    const auto end = query.find('&', 1);
    const auto pair = query.substr(0, end);
    query.remove_prefix(pair.size());
    const auto equals = pair.find('=');
    const bool secret = equals != std::string_view::npos && names_a_secret(pair.substr(1, equals - 1));
    out += secret ? std::string(pair.substr(0, equals + 1)) + "***" : std::string(pair);
  }
  return out;
}

}  // namespace

std::string Url::host_port(int fallback_port) const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port != 0 ? port : fallback_port);
}

Result<Url> parse_url(std::string_view text) {
  Url url;
  if (text.empty()) return permanent("the URL is empty");
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; })) {
    return permanent("the URL contains a space or a control character: write %20 for a space");
  }
  auto scheme = parse_scheme(text);
  if (!scheme) return tl::unexpected(scheme.error());
  url.scheme = *std::move(scheme);
  text.remove_prefix(url.scheme.size() + 3);

  const auto end = std::min(text.find_first_of("/?#"), text.size());
  const auto rest = text.substr(end);
  if (rest.find('#') != std::string_view::npos) {
    return permanent("a URL fragment is not supported: write %23 for a #");
  }
  if (rest.find('@') != std::string_view::npos) {
    return permanent("the URL has an @ after its host" + std::string(kHint) + ", an @ in a path %40");
  }
  if (auto ok = parse_authority(text.substr(0, end), url); !ok) return tl::unexpected(ok.error());

  const auto mark = rest.find('?');
  if (rest.starts_with('/')) {
    auto path = decode(rest.substr(1, mark == std::string_view::npos ? mark : mark - 1), "path");
    if (!path) return tl::unexpected(path.error());
    url.path = *std::move(path);
  }
  if (mark != std::string_view::npos) {
    if (auto ok = parse_query(rest.substr(mark + 1), url); !ok) return tl::unexpected(ok.error());
  }
  return url;
}

Result<std::vector<Url>> parse_urls(const std::string& first, const std::vector<std::string>& others) {
  std::vector<std::string> texts = {first};
  texts.insert(texts.end(), others.begin(), others.end());
  std::vector<Url> urls;
  for (const std::string& text : texts) {
    auto url = parse_url(text);
    if (!url) return tl::unexpected(url.error());
    urls.push_back(*std::move(url));
  }
  return urls;
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
  const auto scheme_end = url.find("://");
  const std::size_t start = scheme_end == std::string_view::npos ? 0 : scheme_end + 3;
  std::string out(url.substr(0, start));
  url.remove_prefix(start);
  // The last "@": in a URL that does not parse, everything before it may be password.
  const auto at = url.rfind('@');
  if (at != std::string_view::npos) {
    const auto userinfo = url.substr(0, at);
    const auto colon = userinfo.find(':');
    out += userinfo.substr(0, colon);
    if (colon != std::string_view::npos) out += ":***";
    url.remove_prefix(at);
  } else if (!url.starts_with('[')) {
    // No "@": user:password without a host, unless a port follows the colon.
    const auto colon = url.find(':');
    const auto end = std::min(url.find_first_of("/?#"), url.size());
    if (colon < end && !parse_port(url.substr(colon + 1, end - colon - 1))) {
      return out + std::string(url.substr(0, colon)) + ":***";
    }
  }
  const auto mark = url.find('?');
  out += url.substr(0, mark);
  if (mark != std::string_view::npos) out += hide_query(url.substr(mark));
  return out;
}

}  // namespace rung
