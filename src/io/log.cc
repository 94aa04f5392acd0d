#include "src/io/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

// By Level.
struct LevelWords {
  std::string_view name, journal_priority;
  spdlog::level::level_enum level;
};
constexpr std::array<LevelWords, 4> kLevels{{{"debug", "<7>", spdlog::level::debug},
                                             {"info", "<6>", spdlog::level::info},
                                             {"warn", "<4>", spdlog::level::warn},
                                             {"error", "<3>", spdlog::level::err}}};
constexpr const LevelWords& words_of(Level level) { return kLevels[static_cast<std::size_t>(level)]; }

// Uses the system's clock, not a Clock: people read it, and a process has one log.
std::string timestamp() { return to_rfc3339(SystemClock().wall()); }

// systemd says in JOURNAL_STREAM which pipe leads to its journal; stderr may since have been redirected. The
// journal takes a line's priority from its beginning (sd-daemon(3)), and removes it.
bool leads_to_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  struct stat now {};
  if (stream == nullptr || fstat(STDERR_FILENO, &now) != 0) return false;
  return fmt::format("{}:{}", now.st_dev, now.st_ino) == stream;
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
  std::string line = fmt::format("{} {:<5} {}", timestamp(), words_of(level).name, event);
  for (const Field& field : fields) line += fmt::format(" {}={}", field.key, text_value(field));
  return line;
}

std::string json_line(Level level, std::string_view event, std::initializer_list<Field> fields) {
  nlohmann::ordered_json line = {{"time", timestamp()}, {"level", words_of(level).name}, {"event", event}};
  for (const Field& field : fields) {
    line[std::string(field.key)] = field.quoted ? nlohmann::ordered_json(field.value)
                                                : nlohmann::ordered_json::parse(field.value, nullptr, false);
  }
  return escape_controls_in_json(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void put(Level level, std::string_view event, std::initializer_list<Field> fields) {
  const LevelWords& words = words_of(level);
  logger()->log(words.level, "{}{}", to_journal ? words.journal_priority : "",
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
  if (!logger()->should_log(words_of(level).level)) return;
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
