#include "src/http/request/router.h"

#include <optional>

namespace rung::http {
namespace {

// The text in place of the pattern's {id}; none if the path doesn't match.
std::optional<std::string> fits(std::string_view pattern, std::string_view path) {
  const std::size_t at = pattern.find('{');
  if (pattern.ends_with('*')) {
    pattern.remove_suffix(1);
    return path.starts_with(pattern) ? std::optional<std::string>("") : std::nullopt;
  }
  if (at == std::string_view::npos) return pattern == path ? std::optional<std::string>("") : std::nullopt;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(pattern.find('}') + 1);
  if (path.size() <= before.size() + after.size() || !path.starts_with(before) || !path.ends_with(after))
    return std::nullopt;
  const std::string_view id = path.substr(at, path.size() - before.size() - after.size());
  return id.find('/') == std::string_view::npos ? std::optional<std::string>(id) : std::nullopt;
}

}  // namespace

Router::Match Router::match(std::string_view method, std::string_view path) const {
  Match match;
  for (const Route& route : routes_) {
    auto id = fits(route.pattern, path);
    if (!id) continue;
    if (route.method == method) return {&route, *std::move(id), ""};
    match.allow.append(match.allow.empty() ? "" : ", ").append(route.method);
    if (route.method == "GET") match.allow.append(", HEAD");
  }
  return match;
}

}  // namespace rung::http
