// Filters and pages: the query of GET /v1/tasks, and the `filter` of a bulk.
// Thread: pure functions.
#pragma once

#include "src/api/fields.h"
#include "src/http/problem.h"
#include "src/store/queries.h"

namespace rung::http {

inline constexpr int kMostOnPage = 1000;

// Reads the conditions queue, exchange, tag, state, kind, message_id, correlation_id, header.NAME, ladder,
// error, due_after, due_before, created_after, created_before. Invalid conditions and unknown names go to
// `errors`, with `prefix` before them.
Filter read_filter(const Pairs& conditions, std::string_view prefix, FieldErrors& errors);

// The same with `limit` (1 to 1000, default 50) and `cursor` (`next` of the previous page).
Filter read_page(const Pairs& query, FieldErrors& errors);

// {"tasks": [...], "next": cursor or null}. REQUIRES: `rows` were listed with a limit of `limit` + 1.
Json page_json(std::vector<TaskRow> rows, int limit);

// The response if the store rejected a filter, or could not be queried.
Response filter_problem(const Filter& filter, const Error& error, std::string_view instance);

// A bulk's filter: an object of texts. Its row stores the object's dump().
Filter read_filter_object(const Json& json, FieldErrors& errors);

}  // namespace rung::http
