// Which tasks a list or a bulk means: the only table of a filter's conditions, by which it is read and
// written. Thread: pure functions.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "src/api/base/query.h"
#include "src/store/tasks.h"

namespace rung::api {

struct Condition {
  Param param;
  // None: of a type of its own.
  std::variant<std::monostate, std::string Filter::*, std::optional<EpochMs> Filter::*> member = {};
};
inline constexpr std::array<std::string_view, 1> kOnlyTrue{"true"};
inline constexpr std::array kConditions = std::to_array<Condition>({
    {{"queue", Param::Is::text, "the queue"}, &Filter::queue},
    {{"exchange", Param::Is::text, "the exchange"}, &Filter::exchange},
    {{"state", Param::Is::words, "the state, or several separated by commas", kWords<State>}},
    {{"kind", Param::Is::word, "failed messages, or delayed ones", kWords<Kind>}},
    {{"tag", Param::Is::text, "the tag"}, &Filter::tag},
    {{"message_id", Param::Is::text, "the message-id"}, &Filter::message_id},
    {{"correlation_id", Param::Is::text, "the message property correlation_id"}, &Filter::correlation_id},
    {{"headers", Param::Is::headers,
      "header.NAME=VALUE, once for each header: the message has this header; only headers in `index_headers` "
      "of the config"}},
    {{"ladder", Param::Is::text, "the ladder"}, &Filter::ladder},
    {{"error", Param::Is::text, "the last error contains this text"}, &Filter::error_contains},
    {{"error_type", Param::Is::text, "the type of the last error"}, &Filter::error_type},
    {{"cause", Param::Is::cause, "the cause of the last failure: `cause_id` of /v1/causes"}, &Filter::cause},
    {{"due_before", Param::Is::time, "due before"}, &Filter::due_before},
    {{"due_after", Param::Is::time, "due after"}, &Filter::due_after},
    {{"first_failed_after", Param::Is::time, "first failed after"}, &Filter::first_failed_after},
    {{"first_failed_before", Param::Is::time, "first failed before"}, &Filter::first_failed_before},
    {{"created_after", Param::Is::time, "created after"}, &Filter::created_after},
    {{"created_before", Param::Is::time, "created before"}, &Filter::created_before},
    {{"outcome_unknown", Param::Is::word, "only deliveries whose silence is held open", kOnlyTrue}},
});

inline constexpr auto kConditionParams = [] {
  std::array<Param, kConditions.size()> params;
  std::ranges::transform(kConditions, params.begin(), &Condition::param);
  return params;
}();

// Parameters that are no conditions are left out. REQUIRES: those that are have been checked.
Filter filter_of(const Pairs& conditions);
// Invalid conditions and unknown names go to `errors`, with `prefix` before them.
Filter read_filter(const Pairs& conditions, std::string_view prefix, FieldErrors& errors);
// The filter of a bulk: an object of texts, not empty. Its row stores filter_json().
Filter read_filter(const Json& json, FieldErrors& errors);
// {"queue": "orders", "state": "parked"}: each condition is a string. Without place, order and limit.
Json filter_json(const Filter& filter);

}  // namespace rung::api
