// Lists in pages, as HTTP and the command line print them: {"tasks": [...], "next": "..."}. `next` is the
// cursor of the next page, null at the end. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/api/json/json.h"
#include "src/api/json/param.h"
#include "src/api/stats/nodes.h"
#include "src/store/bulks.h"
#include "src/store/gates.h"
#include "src/store/tasks.h"

namespace rung::api {

struct Page {
  int limit = kUsualPage;
  std::string cursor = {};  // `next` of the previous page; "" = the first page
};

// The place of a task in a list: its id, and by due time "ID.DUE_MS", or "ID" if it has none.
std::string cursor_of(const Task& task, Filter::Order order);
// Sets the place after which `filter` lists, by its order. False: `cursor` is none of cursor_of().
bool read_cursor(std::string_view cursor, Filter& filter);
// The id in a cursor of the other lists, except queues; nullopt: it is none.
std::optional<std::int64_t> id_of_cursor(std::string_view cursor);

// REQUIRES: `rows` and `bulks` were read behind the cursor, with a limit of page.limit + 1.
Json tasks_page(const std::vector<TaskRow>& rows, int limit, Filter::Order order);
Json bulks_page(const std::vector<Bulk>& bulks, int limit);
// All rows of these are read; the page is cut out of them. REQUIRES: the cursor is an id, except of queues.
Json history_page(const std::vector<AttemptRow>& rows, const Page& page);
Json audit_page(const std::vector<AuditRow>& rows, const Page& page);
Json queues_page(std::vector<QueueGate> gates, const Page& page);
// {"queues", "queues_left_out"}: what is held first, which is never left out, then those with the most
// waiting tasks, `most` in all. A page takes a queue that is missing for a flowing one.
Json overview_queues(std::vector<QueueGate> gates, std::size_t most);
// Each page has `unowned` and `not_shown`.
Json nodes_page(const Nodes& nodes, EpochMs now, const Page& page);

}  // namespace rung::api
