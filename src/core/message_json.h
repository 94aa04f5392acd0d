// Messages' properties and headers as JSON text, exact in both directions: for the store, and for people in
// SQL. Longstr, bool, int64 and double, tables and arrays stand as themselves; every other type as an object
// of one key: {"!i32": 5}, {"!bytes": "hex"}, {"!ts": 1700000000}, {"!dec": [2, 314]}, {"!S": "hex"} for a
// longstr that is not UTF-8 (hex, because SQL's UNHEX reads it), {"!table": [[k, v] ...]} where an object
// could not hold it (a repeated key, a key that begins with "!") or not well (more than 64 keys). What is
// nested deeper than kDeepestNesting is left out when written, and an error when read. Thread: pure
// functions.
#pragma once

#include <string>
#include <string_view>

#include "src/core/message.h"
#include "src/core/result.h"

namespace rung {

std::string properties_to_json(const Properties& properties);
Result<Properties> properties_from_json(std::string_view text);
std::string headers_to_json(const Table& headers);
Result<Table> headers_from_json(std::string_view text);

}  // namespace rung
