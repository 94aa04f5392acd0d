// Bulks as people ask for them, and what became of their tasks. Thread: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/api/json/json.h"
#include "src/core/base/result.h"
#include "src/core/rules/policy.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

// People pause, resume and abort bulks: MysqlStore::set_bulk(), and what `put_back` asks for.
Result<std::optional<Bulk>> control_bulk(MysqlStore& store, const BulkControl& control,
                                         const RuleBookPtr& rules);

// NewBulk::filter_text: its filter and limit as the JSON object that the API takes.
std::string filter_text(const NewBulk& bulk);

// "5%", "0.5 %": in percent, from 0 to below 100. nullopt: it is none.
std::optional<double> parse_percent(std::string_view text);
inline constexpr std::string_view kPercentExample = "must be a percentage like \"5%\"";
std::string percent_text(double percent);  // "5%"

// "canary", "watching" (the outcomes of the canary), "all"; null for a bulk without a canary.
Json stage_of(const Bulk& bulk);

// What is wrong with what a new bulk says of its care: the field (canary, watch, ramp, stop_on_failures), and
// what would be right. nullopt: nothing.
struct WrongCare {
  std::string_view field;
  std::string detail;
};
std::optional<WrongCare> wrong_care(const NewBulk& bulk);

// What became of the tasks that a bulk has sent: of the last kOutcomesCounted that it has processed. nullopt
// for actions that send nothing.
inline constexpr int kOutcomesCounted = 10'000;
struct Outcomes {
  SentCounts counts;
  std::vector<QueueGate> held;  // the gates that hold back those that are not sent yet; not their rates
};
Result<std::optional<Outcomes>> outcomes_of(MysqlStore& store, const Bulk& bulk);
// The bulk, and `outcomes`.
Json to_json(const Bulk& bulk, const std::optional<Outcomes>& outcomes);

// Tasks of a redrive that their queue's `give_up: { after }` has given up, or would: they may be too old to
// be wanted.
struct Expired {
  std::string queue;
  Ms after{0};
  std::int64_t tasks = 0;
};
// How many tasks a redrive leaves out because they have no body (body_stored()).
Result<std::int64_t> without_body(MysqlStore& store, const NewBulk& redrive);
// What a person is told before a redrive: `expired` and `without_body`. Nothing of another action.
Result<Json> redrive_notes(MysqlStore& store, const NewBulk& bulk, const RuleBook& rules);

}  // namespace rung::api
