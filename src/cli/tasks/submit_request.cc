#include "src/cli/tasks/submit_request.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>

#include "levels/duration.h"
#include "src/api/messages/submission.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/when.h"
#include "src/core/base/time.h"
#include "src/core/base/utf8.h"

namespace rung::cli {
namespace {

// Numeric properties; all others are strings.
bool is_number(const std::string& property) { return property == "priority" || property == "timestamp"; }

Result<void> add_pairs(const std::vector<std::string>& pairs, const char* flag, bool numbers, Json& to) {
  for (const std::string& pair : pairs) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      return permanent(std::string(flag) + ": '" + pair + "' is not NAME=VALUE");
    const std::string name = pair.substr(0, equals), value = pair.substr(equals + 1);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc() && end == value.data() + value.size();
    if (numbers && is_number(name) && whole) {
      to[name] = number;
    } else if (is_utf8(value)) {
      to[name] = value;
    } else {
      return permanent(std::string(flag) + ": the value of '" + clean_utf8(name, 60) + "' is not UTF-8");
    }
  }
  return {};
}

// Requires a unit: JSON also accepts bare milliseconds, but on a command line 30 looks like seconds.
Result<void> add_duration(const char* flag, const std::string& text, Json& to, const char* name) {
  if (text.empty()) return {};
  if (const auto parsed = levels::parse_duration(text); !parsed)
    return permanent(std::string(flag) + ": '" + clean_utf8(text, 60) + "': " + parsed.error());
  to[name] = text;
  return {};
}

Result<void> add_due(const SubmitFlags& flags, EpochMs now, Json& to) {
  if (auto delay = add_duration("--delay", flags.delay, to, "delay"); !delay) return delay;
  if (flags.at.empty()) return {};
  const auto at = parse_when(flags.at, now, Direction::future);
  if (!at) return permanent("--at: " + at.error());
  to["at"] = to_rfc3339(*at);
  return {};
}

Result<void> add_body(const SubmitFlags& flags, Json& to) {
  std::string bytes = flags.body;
  if (!flags.file.empty()) {
    auto read = read_bytes(flags.file);
    if (!read) return tl::unexpected(read.error());
    bytes = *std::move(read);
  }
  if (flags.has_body && is_utf8(bytes)) {
    to["body"] = bytes;
  } else if (flags.has_body || !flags.file.empty()) {
    to["body_base64"] = api::to_base64(bytes);  // a file has no content type
  }
  return {};
}

}  // namespace

Result<std::string> read_bytes(const std::string& file) {
  std::FILE* const in = file == "-" ? stdin : std::fopen(file.c_str(), "rb");
  std::string bytes;
  std::array<char, 65536> piece{};
  for (std::size_t read = 1; in != nullptr && read > 0; bytes.append(piece.data(), read))
    read = std::fread(piece.data(), 1, piece.size(), in);
  const bool failed = in == nullptr || std::ferror(in) != 0;  // a closed stdin, a directory
  const std::string why = std::strerror(errno);
  if (in != nullptr && in != stdin) (void)std::fclose(in);
  if (failed) return permanent("cannot read " + (file == "-" ? "stdin" : file) + ": " + why);
  return bytes;
}

Result<Json> to_request(const SubmitFlags& flags, EpochMs now) {
  Json json = Json::object();
  const std::pair<const char*, const std::string&> texts[] = {
      {"queue", flags.queue},   {"exchange", flags.exchange},     {"routing_key", flags.routing_key},
      {"tag", flags.tag},       {"message_id", flags.message_id}, {"content_type", flags.content_type},
      {"ladder", flags.ladder},
  };
  for (const auto& [name, value] : texts) {
    if (value.empty()) continue;
    if (!is_utf8(value)) return permanent(std::string(name) + " is not UTF-8");
    json[name] = value;
  }
  if (auto due = add_due(flags, now, json); !due) return tl::unexpected(due.error());
  if (auto body = add_body(flags, json); !body) return tl::unexpected(body.error());
  if (!flags.headers.empty()) {
    json["headers"] = Json::object();
    if (auto done = add_pairs(flags.headers, "--header", false, json["headers"]); !done)
      return tl::unexpected(done.error());
  }
  if (!flags.properties.empty()) {
    json["properties"] = Json::object();
    if (auto done = add_pairs(flags.properties, "--property", true, json["properties"]); !done)
      return tl::unexpected(done.error());
  }
  Json success = Json::object();
  for (const auto& [flag, text, name] :
       {std::tuple{"--presumed-after", &flags.presumed_after, "presumed_after"},
        std::tuple{"--reported-within", &flags.reported_within, "reported_within"}}) {
    if (auto added = add_duration(flag, *text, success, name); !added) return tl::unexpected(added.error());
  }
  if (!success.empty()) json["success"] = std::move(success);
  if (flags.max_attempts > 0) json["max_attempts"] = flags.max_attempts;
  return json;
}

}  // namespace rung::cli
