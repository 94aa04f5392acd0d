// The query of a request, and the conditions of a filter: each parameter is a row that says what its value
// must be, and how the OpenAPI document describes it. Thread: values; pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/base/fields.h"

namespace rung::api {

struct Param {
  enum class Is : std::uint8_t {
    text,      // 1 to 255 bytes of UTF-8
    cause,     // the id of one
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

// The id in a cursor, or in a path; nullopt: it is none.
std::optional<std::int64_t> id_of_cursor(std::string_view cursor);

// Whether this is 12 hexadecimal digits.
bool is_cause_id(std::string_view text);
inline constexpr std::string_view kCauseIdForm =
    "must be the id of a cause, 12 hexadecimal digits as in 9f2c41d07ab3";

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

struct Page {
  int limit = kUsualPage;
  std::string cursor = {};  // `next` of the previous page; "" = the first page
};

// A page: {"tasks": [...], "next": "..."}. `cursor(row)` is what `next` is after the row, null at the end;
// `show(row)` its JSON. REQUIRES: `rows` are behind the page's cursor, and one more than `limit` if there are
// more.
template <typename Rows, typename Cursor, typename Show>
Json page_of(const char* list, const Rows& rows, int limit, Cursor cursor, Show show) {
  const auto most = static_cast<std::size_t>(limit);
  Json json = {{list, Json::array()}};
  for (std::size_t i = 0; i < rows.size() && i < most; ++i) json[list].push_back(show(rows[i]));
  json["next"] = rows.size() > most ? Json(cursor(rows[most - 1])) : Json();
  return json;
}
// The same of a list that was read whole: the rows with a larger id than the cursor's. `id(row)`.
template <typename Row, typename Id, typename Show>
Json page_by_id(const char* list, std::vector<Row> rows, const Page& page, Id id, Show show) {
  const std::int64_t after = id_of_cursor(page.cursor).value_or(-1);
  std::erase_if(rows, [&](const Row& row) { return id(row) <= after; });
  return page_of(
      list, rows, page.limit, [&](const Row& row) { return std::to_string(id(row)); }, show);
}

// "queue, header.NAME, limit"
std::string known_params(std::span<const Param> params);
// Unknown, repeated and wrong parameters go to `errors`, with `prefix` before them. `kind`: what people call
// them.
void check_params(const Pairs& given, std::span<const Param> params, FieldErrors& errors,
                  std::string_view prefix = "", const std::string& kind = "parameter");

// The query of a request. REQUIRES: its parameters are checked.
class Query {
 public:
  Query() = default;
  explicit Query(Pairs given) : given_(std::move(given)) {}

  // The value of a parameter that is not there: "", none, false.
  std::string text(std::string_view name) const;
  std::optional<EpochMs> time(std::string_view name) const;
  bool flag(std::string_view name) const { return text(name) == "true"; }
  std::vector<std::string> words(std::string_view name) const { return split_words(text(name)); }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  Page page() const;
  const Pairs& all() const { return given_; }

 private:
  const std::string* find(std::string_view name) const;

  Pairs given_;
};

}  // namespace rung::api
