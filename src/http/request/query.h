// Bodies, and queries: filters (also of bulks), pages, order, counts. Each take_ function takes its
// parameters out of the query; what is left is a filter's or unknown. Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/json/fields.h"
#include "src/api/tasks/pages.h"
#include "src/http/request/problem.h"
#include "src/store/queries.h"

namespace rung::http {

inline constexpr std::size_t kCountByBytes = 300;
inline constexpr const char* kCountByWords =
    "queue, error_type, tag, level, cause or header.NAME (a header in index_headers)";

// Reads the conditions queue, exchange, tag, state, kind, message_id, correlation_id, header.NAME, ladder,
// error, error_type, due_after, due_before, created_after, created_before, first_failed_after,
// first_failed_before. Invalid conditions and unknown names go to `errors`, with `prefix` before them.
Filter read_filter(const Pairs& conditions, std::string_view prefix, FieldErrors& errors);

// `limit` (1 to 1000, default 50) and `cursor` (`next` of the previous page). `Cursor`: what it must be; that
// of tasks depends on their order, and read_tasks() reads it.
enum class Cursor { id, text };
api::Page take_page(Pairs& query, Cursor cursor, FieldErrors& errors);
// The value of a parameter; none if it is not there.
std::optional<std::string> take(Pairs& query, std::string_view name, FieldErrors& errors);
// The same of 1 to 255 bytes of UTF-8 text, as read_filter() takes it; "" if it is not there, or wrong.
std::string take_text(Pairs& query, const std::string& name, FieldErrors& errors);
// The same as a time, in RFC 3339.
std::optional<EpochMs> take_time(Pairs& query, const std::string& name, FieldErrors& errors);
// Words separated by commas; without a text none.
std::vector<std::string> words_of(const std::optional<std::string>& text);
// `name=true`, or false.
bool take_flag(Pairs& query, std::string_view name, FieldErrors& errors);
// Whatever is left is an error.
void refuse_rest(const Pairs& query, FieldErrors& errors);
// The response to a request that has a query where none is taken; nullopt if it has none.
std::optional<Response> refuse_query(const Request& request);

// The object in a request's body. Errors: a text; `form` says what the body must be. With
// `may_be_empty`, an empty body counts as {}.
Result<Json> object_of(const Request& request, std::string_view form, bool may_be_empty = false);
inline constexpr std::string_view kObjectOrEmpty = "the body must be an object, or empty";

// The query of GET /v1/tasks, without its count: a filter, `sort` (newest, oldest or due) and a page.
Filter read_tasks(Pairs query, FieldErrors& errors);

// `count=true`, and `by`: the number of tasks instead of the tasks. Takes both out of `query`.
struct CountWanted {
  bool count = false;
  std::optional<CountBy> by;
};
CountWanted take_count(Pairs& query, FieldErrors& errors);

// The response if the store rejected a filter or what to count by, or could not be queried.
Response filter_problem(const Filter& filter, const Error& error, std::string_view instance,
                        bool counted_by = false);

// A bulk's filter: an object of texts. Its row stores the object's dump().
Filter read_filter_object(const Json& json, FieldErrors& errors);

}  // namespace rung::http
