// Fills values into the statements from sql/. A Literal is safe by construction: we format numbers, times and
// words ourselves; other text goes in unchanged if that is safe, else as hexadecimal digits. Nothing depends
// on quoting rules, sql_mode or charset. Thread: values.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "src/core/base/ids.h"
#include "src/core/base/time.h"

namespace rung::mysql {

class Literal {
 public:
  template <std::integral T>
  static Literal number(T value) {
    return Literal(std::to_string(value));
  }
  static Literal decimal(double value);  // exact: std::to_string() would turn 1e-7 into 0
  // REQUIRES: valid UTF-8 (the server refuses anything else).
  static Literal text(std::string_view value);
  static Literal bytes(std::string_view value);
  // To the ms. A time outside DATETIME's range (we use none before 1970; after 9999) becomes the nearest in
  // it.
  static Literal time(EpochMs value);
  static Literal time(const std::optional<EpochMs>& value) { return value ? time(*value) : null(); }
  static Literal before_all_times() { return Literal("'1000-01-01'"); }
  static Literal null() { return Literal("NULL"); }
  static Literal identifier(std::string_view name);  // in backticks
  template <typename Range>
  static Literal numbers(const Range& range) {
    std::string out;
    for (const auto& n : range) out.append(out.empty() ? "" : ",").append(std::to_string(n));
    return Literal(std::move(out));
  }
  // text() of each, or of `word` of it.
  template <typename Range, typename Word = std::identity>
  static Literal texts(const Range& range, Word word = {}) {
    std::string out;
    for (const auto& t : range) out.append(out.empty() ? "" : ",").append(text(word(t)).text_);
    return Literal(std::move(out));
  }
  static Literal ids(std::span<const TaskId> ids);
  static Literal list(std::span<const Literal> literals);
  // The output of render() is safe too: for statements composed of named pieces.
  static Literal rendered(std::string sql) { return Literal(std::move(sql)); }

  const std::string& str() const { return text_; }

 private:
  explicit Literal(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// "(1, 'a'), (2, 'b')": the row list after VALUES.
class Rows {
 public:
  Rows& row();  // starts a new row
  Rows& operator<<(const Literal& literal);
  Literal done() const { return Literal::rendered(text_.empty() ? std::string() : text_ + ")"); }
  std::size_t size() const { return text_.size(); }  // bytes so far
  int count() const { return rows_; }

 private:
  std::string text_;
  bool first_ = true;
  int rows_ = 0;
};

using Place = std::pair<std::string_view, Literal>;

// sql::statement(name) with `:place` replaced. REQUIRES: a value for each place of the statement.
std::string render(std::string_view name, std::initializer_list<Place> places = {});
std::string fill(std::string_view sql, std::initializer_list<Place> places);  // the same for any text

// "2026-11-21 17:05:00.123" -> ms; also without a fraction. 0 for any other text.
EpochMs parse_datetime(std::string_view text);

// CHAR_LENGTH of a text: of keys whose collation ignores blanks at the end.
Literal length_of(const Literal& text);

}  // namespace rung::mysql
