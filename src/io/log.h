// The log: one line per event, key=value or JSON, on stderr. No payloads, no secrets: the caller keeps them
// out. Of one event at most 300 lines a minute are written (log_limit.h), and how many more there were; of
// debug lines all. Each event has a row in docs/events.md (tests/events_check). Thread: any.
#pragma once

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>

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

}  // namespace rung::log
