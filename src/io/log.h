// The log: one line per event, key=value or JSON, on stderr. No payloads, no secrets: the caller keeps them
// out. Of one event at most 300 lines a minute are written (LogLimit), and how many more there were; of
// debug lines all. Each event has a row in docs/events.md (tests/events_check). Thread: any.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rung::log {

enum class Level { debug, info, warn, error };

struct Field {
  std::string_view key;
  std::string value;
  bool quoted = true;  // in JSON: a string (true), or a bare number or bool (false)

  Field(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  Field(std::string_view k, bool v) : key(k), value(v ? "true" : "false"), quoted(false) {}
  template <std::integral T>
  Field(std::string_view k, T v) : key(k), value(std::to_string(v)), quoted(false) {}
};

// level: trace debug info warn error; format: text or json. May be called again (reload). If stderr leads to
// systemd's journal, each line begins with its priority from now on.
void configure(std::string_view level, std::string_view format);

// `event` is a constant, searchable phrase: "the database is away".
void write(Level level, std::string_view event, std::initializer_list<Field> fields = {});

inline void debug(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::debug, event, fields);
}
inline void info(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::info, event, fields);
}
inline void warn(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::warn, event, fields);
}
inline void error(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::error, event, fields);
}

// Writes how many lines are suppressed so far, without waiting until their minute is over: before the process
// ends.
void write_suppressed();

// How many lines of one event the log takes: a fault that repeats for each message must not fill the disk,
// nor hide everything else. Thread: one at a time.
class LogLimit {
 public:
  using Time = std::chrono::milliseconds;  // since any point that stays the same

  // Enough for what happens once for each queue of a large configuration; a fault of every message is far
  // beyond.
  static constexpr std::uint64_t kMostLines = 300;
  static constexpr std::chrono::seconds kWindow{60};

  struct Suppressed {
    std::string event;
    std::uint64_t lines = 0;
  };

  // Whether this line is to be written.
  bool admit(std::string_view event, Time now);

  // The events whose window has ended, with the number of their suppressed lines. The caller logs them.
  std::vector<Suppressed> take_suppressed(Time now);

 private:
  struct Window {
    Time began;
    std::uint64_t lines = 0;
  };

  // The windows that are open, by event: constant phrases, so there are at most some hundred.
  std::map<std::string, Window, std::less<>> windows_;
  // No window with suppressed lines ends before this: so most lines don't look at them all.
  Time next_ = Time::max();
};

}  // namespace rung::log
