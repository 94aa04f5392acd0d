// The statements from sql/, with values filled in. Thread: values.
#pragma once

#include <concepts>
#include <initializer_list>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "src/core/base/ids.h"
#include "src/core/base/time.h"

namespace rung::mysql {

// SQL: a statement, a piece of one, or a value in it. Safe by construction: statements are ours, and so is
// how numbers, times and words are written; other text goes in unchanged if that is safe, else as hexadecimal
// digits. Nothing depends on quoting rules, sql_mode or charset.
class Sql {
 public:
  Sql() = default;
  // A statement from sql/, or what was made from one.
  static Sql rendered(std::string sql) { return Sql(std::move(sql)); }
  static Sql of(Sql sql) { return sql; }
  // A value: a number, an id, a time, a length of time in ms, an enum's word, or text (REQUIRES: valid UTF-8,
  // the server refuses anything else). None is NULL, several are a list.
  template <typename T>
  static Sql of(const T& value);
  template <typename Range>
  static Sql joined(const Range& values, std::string_view by);
  static Sql bytes(std::string_view value);
  static Sql before_all_times() { return Sql("'1000-01-01'"); }
  static Sql null() { return Sql("NULL"); }
  static Sql identifier(std::string_view name);  // in backticks

  const std::string& str() const { return text_; }
  bool empty() const { return text_.empty(); }
  Sql& operator+=(const Sql& more);  // behind a blank, if both have text

 private:
  explicit Sql(std::string text) : text_(std::move(text)) {}
  static Sql text(std::string_view value);
  static Sql decimal(double value);  // exact: std::to_string() would turn 1e-7 into 0
  // To the ms. A time outside DATETIME's range (we use none before 1970; after 9999) becomes the nearest in
  // it.
  static Sql time(EpochMs value);

  std::string text_;
};
inline Sql operator+(Sql a, const Sql& b) { return std::move(a += b); }

template <typename T>
Sql Sql::of(const T& value) {
  if constexpr (std::convertible_to<T, std::string_view>) {
    return text(value);
  } else if constexpr (std::is_enum_v<T>) {
    return text(to_word(value));
  } else if constexpr (std::same_as<T, bool>) {
    return Sql(value ? "1" : "0");
  } else if constexpr (std::integral<T>) {
    return Sql(std::to_string(value));
  } else if constexpr (std::floating_point<T>) {
    return decimal(value);
  } else if constexpr (std::same_as<T, TaskId>) {
    return Sql(value.str());
  } else if constexpr (std::same_as<T, EpochMs>) {
    return time(value);
  } else if constexpr (std::convertible_to<T, Ms>) {
    return Sql(std::to_string(Ms{value}.count()));
  } else if constexpr (std::ranges::range<T>) {
    return joined(value, ",");
  } else {
    return value ? of(*value) : null();
  }
}

template <typename Range>
Sql Sql::joined(const Range& values, std::string_view by) {
  std::string all;
  for (const auto& value : values) all.append(all.empty() ? "" : by).append(of(value).text_);
  return Sql(std::move(all));
}

// "(1, 'a'), (2, 'b')": the row list after VALUES.
class Rows {
 public:
  Rows& row();  // starts a new row
  template <typename T>
  Rows& operator<<(T&& value) {
    return add(Sql::of(std::forward<T>(value)));
  }
  Sql done() const { return Sql::rendered(text_.empty() ? std::string() : text_ + ")"); }
  std::size_t size() const { return text_.size(); }  // bytes so far
  bool empty() const { return text_.empty(); }

 private:
  Rows& add(const Sql& value);

  std::string text_;
};

struct Place {
  template <typename T>
  Place(std::string_view of_name, T&& of_value) : name(of_name), value(Sql::of(std::forward<T>(of_value))) {}
  std::string_view name;
  Sql value;
};

// sql::statement(name) with `:place` replaced. A place without a value is the statement of its name.
Sql render(std::string_view name, std::initializer_list<Place> places = {});
Sql fill(std::string_view sql, std::initializer_list<Place> places);  // the same for any text

// "2026-11-21 17:05:00.123" -> ms; also without a fraction. 0 for any other text.
EpochMs parse_datetime(std::string_view text);

// The columns queue and length: of keys whose collation ignores blanks at the end.
inline Sql queue_key(const Sql& queue) { return render("queue_key", {{"queue", queue}}); }
// A length of time, for a place that ends in _us.
inline Sql micros(Ms length) { return Sql::of(length.count() * 1000); }

}  // namespace rung::mysql
