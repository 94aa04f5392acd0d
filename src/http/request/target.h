// Parses what a request names: path, query, host. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "src/core/base/result.h"
#include "src/http/request/message.h"

namespace rung::http {

// Parses the query of a target, without the ?: NAME=VALUE, split at the first =, percent-decoded; a + is a
// space. Error: a sentence for a 400.
Result<Pairs> parse_query(std::string_view text);

// Percent-decodes a path. If that is impossible, returns the text unchanged; it then matches no path of ours.
// The same for a path with an encoded slash: a proxy that compares paths takes it for part of a segment.
std::string decode_path(std::string_view text);
bool has_encoded_slash(std::string_view path);

// A segment of the request's path, decoded; it may contain a slash then.
std::string decode_segment(std::string_view segment, const Request& request);

// The value of a cookie in the header Cookie; "" = it is not there.
std::string cookie_named(std::string_view name, std::string_view header);

// Whether a Host header is a name or an address, with or without a port: no user, path or percent-encoding.
bool is_host(std::string_view text);

}  // namespace rung::http
