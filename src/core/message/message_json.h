// Messages' properties and headers as JSON text, exact in both directions: for the store, and for people in
// SQL. Longstr, bool, int64, double, tables and arrays map to plain JSON; every other type to an object of
// one key: {"!i32": 5}, {"!bytes": "hex"}, {"!ts": 1700000000}, {"!dec": [2, 314]}, {"!S": "hex"} for a
// longstr that is not UTF-8 (hex, because SQL's UNHEX reads it), {"!table": [[k, v] ...]} for a table that a
// JSON object cannot represent (a repeated key, a key that begins with "!") or would make slow (more than 64
// keys). Values nested deeper than kDeepestNesting are left out when written, and an error when read. Thread:
// pure functions.
#pragma once

#include <string>
#include <string_view>

#include "src/core/base/result.h"
#include "src/core/message/message.h"

namespace rung {

std::string properties_to_json(const Properties& properties);
Result<Properties> properties_from_json(std::string_view text);
std::string headers_to_json(const Table& headers);
Result<Table> headers_from_json(std::string_view text);

}  // namespace rung
