// Parameters of a query and conditions of a filter: each is a row that says what its value must be, and how
// the OpenAPI document describes it. Thread: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/json/json.h"

namespace rung::api {

struct Param {
  enum class Is : std::uint8_t {
    text,      // 1 to 255 bytes of UTF-8
    any,       // also empty
    word,      // one of `words`
    words,     // several of them, separated by commas
    list,      // texts, separated by commas
    flag,      // true or false
    time,      // RFC 3339
    duration,  // "1m"
    limit,     // rows on a page
    cursor,    // `next` of the previous page: a text
    id_cursor,
    headers,  // "header.NAME" for each header
    header    // of the request, not of its query
  };
  std::string_view name;
  Is is = Is::text;
  std::string_view help = {};
  std::span<const std::string_view> words = {};
};

// The parameters of a list in pages.
inline constexpr int kUsualPage = 50, kMostOnPage = 1000;
inline constexpr Param kLimit{"limit", Param::Is::limit, "rows on a page"};
inline constexpr Param kCursor{"cursor", Param::Is::cursor, "`next` of the previous page"};
inline constexpr Param kIdCursor{"cursor", Param::Is::id_cursor, "`next` of the previous page"};
inline constexpr const char* kWrongCursor = "must be the `next` of the previous page, in the same order";
inline constexpr std::string_view kHeaderParam = "header.";

// Whether `name` is the parameter's: its name, or with `headers` "header.NAME".
bool is_named(const Param& param, std::string_view name);
// Why a value is refused, "" = it is not.
std::string wrong_value(const Param& param, std::string_view value);
// A time in a query: a + that was not written as %2B has become a space.
std::string written_time(std::string_view value);
// Texts separated by commas, maybe with a space after them; of "" none.
std::vector<std::string> split_words(std::string_view text);

// As OpenAPI describes it.
Json param_json(const Param& param);

}  // namespace rung::api
