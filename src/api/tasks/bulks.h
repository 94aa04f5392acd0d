// What others need of bulks. Thread: as the store's.
#pragma once

#include <optional>

#include "src/api/base/json.h"
#include "src/core/rules/policy.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

// The tasks of a bulk whose outcomes are counted: the last that it has processed.
inline constexpr int kOutcomesCounted = 10'000;

// What a bulk would do: {"dry_run": true} and count_tasks(); for a redrive also `without_body` and `expired`.
Json dry_run(MysqlStore& store, const NewBulk& bulk, const std::optional<CountBy>& by, const RuleBook& rules);

}  // namespace rung::api
