#include "src/http/request/message.h"

#include <algorithm>
#include <optional>

#include "src/core/base/hex.h"

namespace rung::http {

Result<Pairs> parse_query(std::string_view text) {
  Pairs out;
  while (!text.empty()) {
    const std::size_t end = text.find('&');
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    auto name = percent_decode(pair.substr(0, equals), true);
    auto value = percent_decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1), true);
    if (!name || !value)
      return permanent("invalid percent-encoding in the query: a % is followed by two hexadecimal digits");
    out.emplace_back(*std::move(name), *std::move(value));
  }
  return out;
}

std::string decode_path(std::string_view text) {
  if (has_encoded_slash(text)) return std::string(text);
  return percent_decode(text).value_or(std::string(text));
}

bool has_encoded_slash(std::string_view path) {
  return path.find("%2f") != std::string_view::npos || path.find("%2F") != std::string_view::npos;
}

std::string decode_segment(std::string_view segment, const Request& request) {
  if (!request.has_encoded_slash) return std::string(segment);
  return percent_decode(segment).value_or(std::string(segment));
}

bool is_host(std::string_view text) {
  constexpr std::string_view kOthers = "-._~";
  const bool bracket = text.starts_with('[');
  const std::size_t end = bracket ? text.find(']') : text.find(':');
  const std::string_view name = text.substr(bracket ? 1 : 0, bracket ? end - 1 : end);
  std::string_view rest = end == std::string_view::npos ? "" : text.substr(bracket ? end + 1 : end);
  const auto fits = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           kOthers.find(c) != std::string_view::npos || (bracket && c == ':');
  };
  if (name.empty() || (bracket && end == std::string_view::npos) || !std::ranges::all_of(name, fits))
    return false;
  if (rest.empty()) return true;
  const bool colon = rest.starts_with(':');
  rest.remove_prefix(1);
  return colon && rest.size() <= 5 && rest.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string cookie_named(std::string_view name, std::string_view header) {
  while (!header.empty()) {
    std::string_view pair = header.substr(0, header.find(';'));
    header.remove_prefix(std::min(pair.size() + 1, header.size()));
    pair.remove_prefix(std::min(pair.find_first_not_of(' '), pair.size()));
    if (pair.starts_with(name) && pair.substr(name.size()).starts_with('='))
      return std::string(pair.substr(name.size() + 1));
  }
  return "";
}

}  // namespace rung::http
