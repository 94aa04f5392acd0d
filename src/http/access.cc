#include "src/http/access.h"

#include <openssl/crypto.h>
#include <strings.h>

#include "src/core/message/digest.h"
#include "src/http/problem.h"

namespace rung::http {
namespace {

// "http://127.0.0.1:8025" -> "127.0.0.1:8025".
std::string_view host_of_origin(std::string_view origin) {
  const std::size_t at = origin.find("://");
  return at == std::string_view::npos ? origin : origin.substr(at + 3);
}

}  // namespace

bool same_secret(const std::string& a, const std::string& b) {
  const auto x = sha256(a), y = sha256(b);
  return CRYPTO_memcmp(x.data(), y.data(), x.size()) == 0;
}

bool is_loopback_host(std::string_view host) {
  if (host.starts_with('[')) return host.starts_with("[::1]") && (host.size() == 5 || host[5] == ':');
  const std::string_view name = host.substr(0, host.find(':'));
  if (name == "localhost") return true;
  return name.starts_with("127.") && name.find_first_not_of("0123456789.") == std::string_view::npos;
}

Access::Kind Access::kind_of(const Request& request, const Tokens& tokens) {
  constexpr std::string_view kBearer = "bearer ";  // any case
  if (request.authorization.empty()) return Kind::none;
  if (request.authorization.size() <= kBearer.size() ||
      strncasecmp(request.authorization.c_str(), kBearer.data(), kBearer.size()) != 0)
    return Kind::unknown;
  const std::string token = request.authorization.substr(kBearer.size());
  // Always compare all, whichever matches.
  bool full = false, read = false;
  for (const std::string& one : tokens.full) full = (same_secret(token, one) && !one.empty()) || full;
  for (const std::string& one : tokens.read) read = (same_secret(token, one) && !one.empty()) || read;
  return full ? Kind::full : read ? Kind::read : Kind::unknown;
}

std::optional<Response> Access::refuse(const Request& request, bool writes) const {
  const auto valid = tokens();
  if (valid->empty()) {
    // A web page in a browser on this machine could reach the port: by DNS rebinding, or by a cross-origin
    // request.
    if (!is_loopback_host(request.host))
      return problem(403, "without a token (http.token_file) the Host must be 127.0.0.1, [::1] or localhost",
                     request.path);
    if (!request.origin.empty() && host_of_origin(request.origin) != request.host)
      return problem(403, "without a token (http.token_file) requests from another origin are refused",
                     request.path);
    return std::nullopt;
  }
  const Kind kind = kind_of(request, *valid);
  if (kind == Kind::full || (kind == Kind::read && !writes)) return std::nullopt;
  if (kind == Kind::read) {
    return problem(403, "this token is read-only: a change needs the token of http.token_file", request.path);
  }
  Response response = problem(401,
                              kind == Kind::none ? "a token is required: Authorization: Bearer TOKEN"
                                                 : "unknown token: Authorization: Bearer TOKEN",
                              request.path);
  response.headers.emplace_back("WWW-Authenticate", kind == Kind::none
                                                        ? "Bearer realm=\"rung\""
                                                        : "Bearer realm=\"rung\", error=\"invalid_token\"");
  return response;
}

std::string Access::who(const Request& request) const {
  const char* words[] = {"no token", "no token", "token read", "token full"};
  const auto valid = tokens();
  const Kind kind = valid->empty() ? Kind::none : kind_of(request, *valid);
  return std::string(words[static_cast<int>(kind)]) + ", " + request.peer + " (http)";
}

}  // namespace rung::http
