#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "src/api/base/message.h"
#include "src/api/tasks/tasks.h"

namespace rung::api {
namespace {

constexpr std::array<std::string_view, 3> kSizes{"small", "large", "huge"};
constexpr std::array kParams{Param{"queue"},
                             Param{"anything", Param::Is::any},
                             Param{"size", Param::Is::word, "", kSizes},
                             Param{"sizes", Param::Is::words, "", kSizes},
                             Param{"all", Param::Is::flag},
                             Param{"since", Param::Is::time},
                             Param{"most", Param::Is::duration},
                             Param{"headers", Param::Is::headers},
                             Param{"If-Match", Param::Is::header},
                             kLimit,
                             kIdCursor};

// The parameter that is wrong, and why.
std::string mistake(const Pairs& given) {
  FieldErrors errors;
  check_params(given, kParams, errors);
  return errors.size() == 1 ? errors[0].field + ": " + errors[0].detail : std::to_string(errors.size());
}

TEST(Query, HasWhatItsParametersSay) {
  FieldErrors errors;
  const Pairs given = {{"queue", "q"},
                       {"anything", ""},
                       {"sizes", "small, huge"},
                       {"all", "true"},
                       {"since", "1970-01-01T01:00:02 01:00"},  // a + that was not encoded
                       {"header.tenant", "acme"},
                       {"limit", "7"},
                       {"cursor", "99"}};
  check_params(given, kParams, errors);
  const Query query(given);
  EXPECT_EQ(errors, FieldErrors{});
  EXPECT_EQ(query.text("queue"), "q");
  EXPECT_TRUE(query.has("anything"));
  EXPECT_FALSE(query.has("size"));
  EXPECT_EQ(query.words("sizes"), (std::vector<std::string>{"small", "huge"}));
  EXPECT_TRUE(query.flag("all"));
  EXPECT_EQ(query.time("since"), EpochMs{2000});
  EXPECT_EQ(query.page().limit, 7);
  EXPECT_EQ(query.page().cursor, "99");
  EXPECT_EQ(Query().page().limit, kUsualPage);
}

TEST(Query, MistakesAreNamed) {
  EXPECT_EQ(mistake({{"size", "tiny"}}), "size: must be small, large or huge");
  EXPECT_EQ(mistake({{"sizes", "small,"}}),
            "sizes: must be small, large or huge, or several of these separated by commas");
  EXPECT_EQ(mistake({{"sizes", ""}}).substr(0, 6), "sizes:");
  EXPECT_EQ(mistake({{"queue", ""}}), "queue: must be a string of 1 to 255 bytes");
  EXPECT_EQ(mistake({{"queue", "\xff"}}), "queue: must be UTF-8 text");
  EXPECT_EQ(mistake({{"queue", "a"}, {"queue", "b"}}), "queue: given twice");
  EXPECT_EQ(mistake({{"all", "yes"}}), "all: must be true or false");
  EXPECT_EQ(mistake({{"since", "today"}}), "since: must be an RFC 3339 time, e.g. 2026-11-21T17:05:00Z");
  EXPECT_EQ(mistake({{"most", "5"}}), "most: the unit is missing: write 5s, 5m, 5h or 5d");
  for (const auto* limit : {"0", "1001", "1x", ""})
    EXPECT_EQ(mistake({{"limit", limit}}), "limit: must be an integer from 1 to 1000") << limit;
  for (const auto* cursor : {"orders", "", "-1"})
    EXPECT_EQ(mistake({{"cursor", cursor}}), std::string("cursor: ") + kWrongCursor) << cursor;
  for (const auto* unknown : {"offset", "header.", "If-Match"})
    EXPECT_EQ(mistake({{unknown, "5"}}),
              std::string(unknown) +
                  ": unknown parameter; known parameters: queue, anything, size, sizes, all, since, most, "
                  "header.NAME, limit, cursor");
}

TEST(Query, OnlySoManyMistakes) {
  Pairs many;
  for (int i = 0; i < 4000; ++i) many.emplace_back(std::to_string(i), "x");
  EXPECT_LE(std::stoul(mistake(many)), kMostTold + 1);
}

TEST(Pages, EndWithTheLastRow) {
  const auto page = [](const std::vector<int>& rows) {
    return page_of(
        "rows", rows, 2, [](int row) { return std::to_string(row); }, [](int row) { return Json(row); });
  };
  EXPECT_EQ(page({9, 7, 5}), Json({{"rows", {9, 7}}, {"next", "7"}}));
  EXPECT_EQ(page({9, 7}), Json({{"rows", {9, 7}}, {"next", nullptr}}));
  EXPECT_EQ(page({}), Json({{"rows", Json::array()}, {"next", nullptr}}));
}

TEST(Pages, OfAListThatWasReadWhole) {
  const auto page = [](const Page& asked) {
    return page_by_id(
        "rows", std::vector<int>{10, 11, 12}, asked, [](int row) { return row; },
        [](int row) { return Json(row); });
  };
  EXPECT_EQ(page({2, ""}), Json({{"rows", {10, 11}}, {"next", "11"}}));
  EXPECT_EQ(page({2, "11"}), Json({{"rows", {12}}, {"next", nullptr}}));
  EXPECT_EQ(page({}).at("rows").size(), 3U);
}

// ---- The conditions of a filter: read from a query and from a bulk's JSON, and written.

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
  Json expected = Json::object();
  for (const auto& [name, value] : all_conditions()) expected[name] = value;
  const Filter filter = read_filter(expected, errors);
  EXPECT_EQ(errors, FieldErrors{});
  EXPECT_EQ(filter.states, (std::vector{State::parked, State::scheduled}));
  EXPECT_EQ(filter.headers.at(0), std::pair(std::string("tenant"), std::string("v")));
  EXPECT_EQ(filter_json(filter), expected);
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
}

}  // namespace
}  // namespace rung::api
