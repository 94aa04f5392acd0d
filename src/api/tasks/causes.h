// Causes of failures, for HTTP and the command line. Thread: as the store's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/api/json/json.h"
#include "src/core/base/result.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

// A page of them. `next`: CauseFilter::offset of the next page, since their order changes all the time.
struct Causes {
  std::vector<CauseRow> rows;
  std::string next;  // "" = this is the last one
};
Result<Causes> read_causes(MysqlStore& store, CauseFilter filter);

// One of them, with its tasks under way and parked by each of `index_headers`: {"cause_id": ..., "by_header":
// [{"by": "header.tenant", "groups": [...], ...}]}. not_found: no such cause.
Result<Json> read_cause(MysqlStore& store, const std::string& cause,
                        const std::vector<std::string>& index_headers);

// Stores what a person says. not_found: no such cause.
Result<CauseRow> change_cause(MysqlStore& store, const std::string& cause, const CauseTriage& triage,
                              const std::string& who);

// Whether this is 12 hexadecimal digits.
bool is_cause_id(std::string_view text);
inline constexpr std::string_view kCauseIdForm =
    "must be the id of a cause, 12 hexadecimal digits as in 9f2c41d07ab3";

// How a consumer makes a cause more precise; "" if it already says why. A plain reject has no reason.
std::string advice(std::string_view error_type, std::string_view sample);

Json to_json(const CauseRow& cause);  // with the names of the columns of retry_causes
Json to_json(const Causes& causes);   // {"causes": [...], "next": "50"}

}  // namespace rung::api
