// Filters and pages: the query of GET /v1/tasks, and the `filter` of a bulk.
// Thread: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/api/fields.h"
#include "src/http/problem.h"
#include "src/store/queries.h"

namespace rung::http {

inline constexpr int kMostOnPage = 1000;
inline constexpr std::int64_t kMostCounted = 1'000'000;
inline constexpr std::size_t kCountByBytes = 300;
inline constexpr const char* kCountByWords =
    "queue, error_type, tag or header.NAME (a header in index_headers)";

// Reads the conditions queue, exchange, tag, state, kind, message_id, correlation_id, header.NAME, ladder,
// error, error_type, due_after, due_before, created_after, created_before, first_failed_after,
// first_failed_before. Invalid conditions and unknown names go to `errors`, with `prefix` before them.
Filter read_filter(const Pairs& conditions, std::string_view prefix, FieldErrors& errors);

// The same with `limit` (1 to 1000, default 50) and `cursor` (`next` of the previous page).
Filter read_page(const Pairs& query, FieldErrors& errors);

// `count=true`, and `by`: the number of tasks instead of the tasks. Takes both out of `query`.
struct CountWanted {
  bool count = false;
  std::optional<CountBy> by;
};
CountWanted take_count(Pairs& query, FieldErrors& errors);

// {"count": 12, "or_more": false}, and with `by`: "by", "groups": [{"value": "orders", "count": 7}],
// "others". `name`: of the first field.
Result<Json> count_json(QueryStore& store, const Filter& filter, const std::optional<CountBy>& by,
                        std::int64_t most, const char* name);

// {"tasks": [...], "next": cursor or null}. REQUIRES: `rows` were listed with a limit of `limit` + 1.
Json page_json(std::vector<TaskRow> rows, int limit);

// The response if the store rejected a filter or what to count by, or could not be queried.
Response filter_problem(const Filter& filter, const Error& error, std::string_view instance,
                        bool counted_by = false);

// A bulk's filter: an object of texts. Its row stores the object's dump().
Filter read_filter_object(const Json& json, FieldErrors& errors);

}  // namespace rung::http
