#include "src/store/mysql/render.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "sql/sql.h"
#include "src/core/base/hex.h"

namespace rung::mysql {
namespace {

constexpr EpochMs kLatest{253402300799999};  // 9999-12-31 23:59:59.999

// Safe within single quotes, whatever sql_mode and charset: printable ASCII without ' and \.
constexpr auto kPlain = [] {
  std::array<bool, 256> plain{};
  for (unsigned c = ' '; c <= '~'; ++c) plain[c] = c != '\'' && c != '\\';
  return plain;
}();
bool is_plain(std::string_view value) {
  return std::ranges::all_of(value, [](char c) { return kPlain[static_cast<unsigned char>(c)]; });
}

std::string in_quotes(std::string_view plain) {
  std::string out;
  out.reserve(plain.size() + 2);
  out.append("'").append(plain).append("'");
  return out;
}

std::string in_hex(std::string_view prefix, std::string_view value) {
  std::string out;
  out.reserve(prefix.size() + 2 * value.size() + 1);
  out = prefix;
  append_hex(out, value);
  return out += '\'';
}

}  // namespace

Sql Sql::decimal(double value) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return Sql(std::string(digits.data(), end));
}

Sql Sql::text(std::string_view value) {
  return Sql(is_plain(value) ? in_quotes(value) : in_hex("_utf8mb4 x'", value));
}

// For a JSON body the server parses half as much text.
Sql Sql::bytes(std::string_view value) {
  return Sql(is_plain(value) ? in_quotes(value) : in_hex("x'", value));
}

Sql Sql::time(EpochMs value) { return Sql(in_quotes(format_utc(std::clamp(value, EpochMs{0}, kLatest)))); }

Sql Sql::identifier(std::string_view name) {
  std::string out = "`";
  for (const char c : name) {
    if (c == '`') out += '`';
    out += c;
  }
  return Sql(out + "`");
}

Sql& Sql::operator+=(const Sql& more) {
  if (!empty() && !more.empty()) text_ += ' ';
  text_ += more.text_;
  return *this;
}

Rows& Rows::row() {
  text_ += text_.empty() ? "(" : "),(";
  return *this;
}

Rows& Rows::add(const Sql& value) {
  if (text_.back() != '(') text_ += ',';  // no value ends with it
  text_ += value.str();
  return *this;
}

Sql render(std::string_view name, std::initializer_list<Place> places) {
  return fill(sql::statement(name), places);
}

Sql fill(std::string_view text, std::initializer_list<Place> places) {
  std::string out;
  std::size_t reserve = text.size();
  for (const Place& place : places) reserve += place.value.str().size();
  out.reserve(reserve);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ':') {
      out += text[i];
      continue;
    }
    std::size_t end = i + 1;
    while (end < text.size() && ((text[end] >= 'a' && text[end] <= 'z') || text[end] == '_')) ++end;
    const std::string_view key = text.substr(i + 1, end - i - 1);
    if (key.empty()) {
      out += ':';
      continue;
    }
    const auto* place =
        std::find_if(places.begin(), places.end(), [&](const Place& p) { return p.name == key; });
    out += place == places.end() ? sql::statement(key) : place->value.str();
    i = end - 1;
  }
  return Sql::rendered(std::move(out));
}

EpochMs parse_datetime(std::string_view text) {
  if (text.size() < 19) return {};
  auto digits = [&](std::size_t from, std::size_t n) {
    int value = 0;
    for (std::size_t i = from; i < from + n && i < text.size(); ++i) value = value * 10 + (text[i] - '0');
    return value;
  };
  using namespace std::chrono;
  const sys_days day = year{digits(0, 4)} / month{static_cast<unsigned>(digits(5, 2))} /
                       std::chrono::day{static_cast<unsigned>(digits(8, 2))};
  const auto whole =
      day.time_since_epoch() + hours{digits(11, 2)} + minutes{digits(14, 2)} + seconds{digits(17, 2)};
  std::int64_t ms = duration_cast<milliseconds>(whole).count();
  if (text.size() >= 23) ms += digits(20, 3);
  return {ms};
}

}  // namespace rung::mysql
