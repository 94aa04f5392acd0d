#include "src/io/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>

#include "src/core/base/time.h"
#include "src/core/base/utf8.h"

namespace rung::log {
namespace {

std::atomic<bool> as_json{false}, to_journal{false};

std::shared_ptr<spdlog::logger> logger() {
  static const auto instance = [] {
    auto made = spdlog::stderr_logger_mt("rung");
    made->set_pattern("%v");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return instance;
}

// Uses the system's clock, not a Clock: people read it, and a process has one log.
std::string timestamp() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string text = format_utc({std::chrono::duration_cast<std::chrono::milliseconds>(now).count()});
  text[10] = 'T';
  return text + 'Z';
}

std::string_view name(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warn:
      return "warn";
    case Level::error:
      return "error";
  }
  return "info";
}

// systemd says in JOURNAL_STREAM which pipe leads to its journal; stderr may since have been redirected. The
// journal takes a line's priority from its beginning (sd-daemon(3)), and removes it.
bool leads_to_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  struct stat now {};
  if (stream == nullptr || fstat(STDERR_FILENO, &now) != 0) return false;
  return fmt::format("{}:{}", now.st_dev, now.st_ino) == stream;
}

std::string_view journal_priority(Level level) {
  if (!to_journal) return "";
  switch (level) {
    case Level::debug:
      return "<7>";
    case Level::info:
      return "<6>";
    case Level::warn:
      return "<4>";
    case Level::error:
      return "<3>";
  }
  return "";
}

// Quotes a value whose end would be ambiguous, or that needs escaping. JSON's quoting keeps an event on one
// line.
std::string text_value(const Field& field) {
  std::string quoted = escape_controls_in_json(
      nlohmann::json(field.value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  const bool as_it_is = !field.value.empty() && field.value.find_first_of(" =") == std::string::npos &&
                        std::string_view(quoted).substr(1, quoted.size() - 2) == field.value;
  return as_it_is ? field.value : quoted;
}

std::string text_line(Level level, std::string_view event, std::initializer_list<Field> fields) {
  std::string line = fmt::format("{} {:<5} {}", timestamp(), name(level), event);
  for (const Field& field : fields) line += fmt::format(" {}={}", field.key, text_value(field));
  return line;
}

std::string json_line(Level level, std::string_view event, std::initializer_list<Field> fields) {
  nlohmann::ordered_json line = {{"time", timestamp()}, {"level", name(level)}, {"event", event}};
  for (const Field& field : fields) {
    line[std::string(field.key)] = field.quoted ? nlohmann::ordered_json(field.value)
                                                : nlohmann::ordered_json::parse(field.value, nullptr, false);
  }
  return escape_controls_in_json(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

spdlog::level::level_enum spdlog_level(Level level) {
  return level == Level::debug  ? spdlog::level::debug
         : level == Level::info ? spdlog::level::info
         : level == Level::warn ? spdlog::level::warn
                                : spdlog::level::err;
}

void put(Level level, std::string_view event, std::initializer_list<Field> fields) {
  logger()->log(spdlog_level(level), "{}{}", journal_priority(level),
                as_json ? json_line(level, event, fields) : text_line(level, event, fields));
}

// Writes how many lines were suppressed until then; whether the event's line is to be written. "" = no event.
bool admit(std::string_view event, LogLimit::Time until) {
  static std::mutex mutex;
  static LogLimit limit;
  const std::lock_guard lock(mutex);
  for (const auto& [of, lines] : limit.take_suppressed(until))
    put(Level::warn, "log lines suppressed", {{"of", of}, {"lines", lines}});
  return event.empty() || limit.admit(event, until);
}

}  // namespace

void configure(std::string_view level, std::string_view format) {
  as_json = format == "json";
  to_journal = leads_to_journal();
  logger()->set_level(spdlog::level::from_str(std::string(level)));
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  if (!logger()->should_log(spdlog_level(level))) return;
  // Who asks for debug lines wants them all.
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  if (level != Level::debug && !admit(event, std::chrono::duration_cast<LogLimit::Time>(now))) return;
  put(level, event, fields);
}

void write_suppressed() { admit("", LogLimit::Time::max()); }

bool LogLimit::admit(std::string_view event, Time now) {
  auto at = windows_.find(event);
  if (at == windows_.end()) at = windows_.emplace(std::string(event), Window{now}).first;
  Window& window = at->second;
  // What was suppressed is taken first (take_suppressed), so nothing is forgotten here.
  if (now - window.began >= kWindow) window = {now};
  if (++window.lines <= kMostLines) return true;
  next_ = std::min(next_, window.began + kWindow);
  return false;
}

std::vector<LogLimit::Suppressed> LogLimit::take_suppressed(Time now) {
  std::vector<Suppressed> out;
  if (now < next_) return out;
  next_ = Time::max();
  for (auto at = windows_.begin(); at != windows_.end();) {
    const auto& [event, window] = *at;
    const Time ends = window.began + kWindow;
    if (window.lines > kMostLines && ends <= now) out.push_back({event, window.lines - kMostLines});
    if (window.lines > kMostLines && ends > now) next_ = std::min(next_, ends);
    at = ends <= now ? windows_.erase(at) : std::next(at);
  }
  return out;
}

}  // namespace rung::log
