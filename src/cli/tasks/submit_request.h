// Converts the options of `rung submit` to the JSON of POST /v1/tasks, which src/api/messages/submission.h
// parses. Thread: pure functions, except for reading files.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung::cli {

struct SubmitFlags {
  std::string queue, exchange, routing_key, tag, ladder, message_id, content_type;
  std::string body, file;  // file "-" = stdin
  bool has_body = false;
  std::vector<std::string> headers, properties;  // "name=value"
  std::string delay, at, presumed_after, reported_within;
  int max_attempts = 0;
};

// Errors: an unreadable file, or a pair without "=".
Result<nlohmann::ordered_json> to_request(const SubmitFlags& flags, EpochMs now);

// All of a file's bytes; "-" = stdin.
Result<std::string> read_bytes(const std::string& file);

}  // namespace rung::cli
