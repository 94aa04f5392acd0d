// What a request names: its path, its query, its host. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "src/core/result.h"
#include "src/http/message.h"

namespace rung::http {

// The query of a target, without its ?: NAME=VALUE, split at the first =, percent-decoded; a + is a blank.
// Error: a sentence for a 400.
Result<Pairs> parse_query(std::string_view text);

// Percent-decoded. Where that is impossible the text is returned as it is, and matches no path of ours. So is
// a path with an encoded slash: a proxy that compares paths takes it for a part of a segment.
std::string decode_path(std::string_view text);

// Whether a Host header is a name or an address, with or without a port: no user, no path, no
// percent-encoding.
bool is_host(std::string_view text);

}  // namespace rung::http
