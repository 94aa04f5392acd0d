// The conditions of a filter: read from a query and from a bulk's JSON, and written.
#include "src/api/tasks/filter.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rung::api {
namespace {

// A valid value of each condition.
Pairs all_conditions() {
  Pairs all;
  for (const Condition& one : kConditions) {
    const std::string name(one.param.is == Param::Is::headers ? "header.tenant" : one.param.name);
    std::string value = "v";
    if (name == "state") value = "parked,scheduled";
    if (name == "cause") value = "0123456789ab";
    if (name != "state" && !one.param.words.empty()) value = one.param.words.front();
    if (one.param.is == Param::Is::time) value = "2026-11-21T17:05:00.000Z";
    all.emplace_back(name, value);
  }
  return all;
}

TEST(Filters, EachConditionIsReadAndWritten) {
  FieldErrors errors;
  const Filter filter = read_filter(all_conditions(), "", errors);
  EXPECT_EQ(errors, FieldErrors{});
  EXPECT_EQ(filter.states, (std::vector{State::parked, State::scheduled}));
  EXPECT_EQ(filter.headers.at(0), std::pair(std::string("tenant"), std::string("v")));
  Json expected = Json::object();
  for (const auto& [name, value] : all_conditions()) expected[name] = value;
  EXPECT_EQ(filter_json(filter), expected);
  errors.clear();
  EXPECT_EQ(filter_json(read_filter(expected, errors)), expected) << "a bulk's filter";
  EXPECT_EQ(errors, FieldErrors{});
}

TEST(Filters, MistakesAreNamed) {
  const auto mistake = [](const Json& json) {
    FieldErrors errors;
    read_filter(json, errors);
    return errors.size() == 1 ? errors[0].field + ": " + errors[0].detail.substr(0, 30) : "";
  };
  EXPECT_EQ(mistake(Json::object()), "filter: an empty filter means every ta");
  EXPECT_EQ(mistake("all"), "filter: must be an object: {\"queue\": \"");
  EXPECT_EQ(mistake({{"queue", 5}}), "filter.queue: must be a string");
  EXPECT_EQ(mistake({{"limit", "5"}}), "filter.limit: unknown condition; known condi") << "no pages";
  EXPECT_EQ(mistake({{"kind", "?"}}), "filter.kind: must be retry or delay");
  EXPECT_EQ(mistake({{"cause", "?"}}), "filter.cause: must be the id of a cause, 12 ");
  EXPECT_EQ(mistake({{"outcome_unknown", "false"}}), "filter.outcome_unknown: must be true");
  FieldErrors errors;
  read_filter({{"queue", "a"}, {"queue", "b"}}, "", errors);
  EXPECT_EQ(errors, (FieldErrors{{"queue", "given twice"}}));
}

}  // namespace
}  // namespace rung::api
