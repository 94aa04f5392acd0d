#include "src/http/request/query.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace rung::http {
namespace {

TEST(Query, AllConditions) {
  FieldErrors errors;
  const Filter f = read_tasks({{"queue", "q"},
                               {"exchange", "x"},
                               {"tag", "t"},
                               {"state", "parked"},
                               {"kind", "delay"},
                               {"message_id", "m"},
                               {"ladder", "l"},
                               {"error", "boom"},
                               {"due_after", "1970-01-01T00:00:01Z"},
                               {"due_before", "1970-01-01T01:00:02 01:00"},
                               {"created_after", "1970-01-01T00:00:03Z"},
                               {"created_before", "1970-01-01T00:00:04Z"},
                               {"sort", "due"},
                               {"limit", "7"},
                               {"cursor", "99.1234"}},
                              errors);
  EXPECT_EQ(errors, FieldErrors{});
  EXPECT_EQ(f.queue + f.exchange + f.tag + f.message_id + f.ladder + f.error_contains, "qxtmlboom");
  EXPECT_EQ(f.state, State::parked);
  EXPECT_EQ(f.kind, Kind::delay);
  EXPECT_EQ(f.due_after, EpochMs{1000});
  EXPECT_EQ(f.due_before, EpochMs{2000});
  EXPECT_EQ(f.created_after, EpochMs{3000});
  EXPECT_EQ(f.created_before, EpochMs{4000});
  EXPECT_EQ(f.limit, 7);
  EXPECT_EQ(f.after, TaskId{99});
  EXPECT_EQ(f.after_due, EpochMs{1234});
  EXPECT_EQ(f.order, Filter::Order::due);
}

TEST(Query, ErrorsByTypeAndFirstFailure) {
  FieldErrors errors;
  const Filter f = read_filter({{"error", "/var/log"},
                                {"error_type", "Unavailable"},
                                {"first_failed_after", "1970-01-01T00:00:01Z"},
                                {"first_failed_before", "1970-01-01T00:00:02Z"}},
                               "", errors);
  EXPECT_EQ(errors, FieldErrors{});
  EXPECT_EQ(f.error_contains, "/var/log");
  EXPECT_EQ(f.error_type, "Unavailable");
  EXPECT_EQ(f.first_failed_after, EpochMs{1000});
  EXPECT_EQ(f.first_failed_before, EpochMs{2000});
}

TEST(Query, CountsAreAskedForByTheirField) {
  FieldErrors errors;
  Pairs query{{"queue", "q"}, {"count", "true"}, {"by", "header.tenant"}};
  const CountWanted wanted = take_count(query, errors);
  EXPECT_EQ(errors, FieldErrors{});
  EXPECT_TRUE(wanted.count);
  ASSERT_TRUE(wanted.by);
  EXPECT_EQ(wanted.by->str(), "header.tenant");
  EXPECT_EQ(query, (Pairs{{"queue", "q"}}));
  for (Pairs wrong :
       {Pairs{{"by", "queue"}}, Pairs{{"count", "yes"}}, Pairs{{"count", "true"}, {"by", "header."}}}) {
    errors.clear();
    take_count(wrong, errors);
    EXPECT_EQ(errors.size(), 1U);
  }
}

TEST(Query, MistakesAreNamed) {
  const auto field = [](const Pairs& query) {
    FieldErrors errors;
    read_tasks(query, errors);
    return errors.size() == 1 ? errors[0].field : std::to_string(errors.size());
  };
  for (const auto* name :
       {"state", "kind", "due_after", "created_before", "limit", "cursor", "sort", "unknown"})
    EXPECT_EQ(field({{name, "?"}}), name);
  EXPECT_EQ(field({{"queue", ""}}), "queue");
  EXPECT_EQ(field({{"queue", "a"}, {"queue", "b"}}), "queue");
  EXPECT_EQ(field({{"limit", "1001"}}), "limit");
  EXPECT_EQ(field({{"limit", "1x"}}), "limit");
  EXPECT_EQ(field({{"cursor", "1"}, {"cursor", "2"}}), "cursor");
  EXPECT_EQ(field({{"cursor", "1.5"}}), "cursor") << "of another order";
  FieldErrors errors;
  read_filter({{"limit", "5"}}, "filter.", errors);  // a bulk has no pages
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].field, "filter.limit");
}

TEST(Query, OnlyUtf8AndOnlySoManyMistakes) {
  FieldErrors errors;
  read_tasks({{"queue", "\xff"}}, errors);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].detail, "must be UTF-8 text");
  Pairs many;
  for (int i = 0; i < 4000; ++i) many.emplace_back(std::to_string(i), "x");
  errors.clear();
  read_tasks(many, errors);
  EXPECT_LE(errors.size(), api::kMostTold + 1);
}

TEST(Query, AListHasPagesAndNothingElse) {
  FieldErrors errors;
  Pairs query{{"limit", "3"}, {"cursor", "17"}, {"all", "true"}};
  EXPECT_TRUE(take_flag(query, "all", errors));
  const api::Page page = take_page(query, Cursor::id, errors);
  refuse_rest(query, errors);
  EXPECT_EQ(errors, FieldErrors{});
  EXPECT_EQ(page.limit, 3);
  EXPECT_EQ(page.cursor, "17");
  for (Pairs wrong : {Pairs{{"cursor", "orders"}}, Pairs{{"cursor", ""}}, Pairs{{"limit", "0"}},
                      Pairs{{"limit", "1001"}}, Pairs{{"offset", "5"}}}) {
    errors.clear();
    const std::string name = wrong[0].first;
    take_page(wrong, Cursor::id, errors);
    refuse_rest(wrong, errors);
    ASSERT_EQ(errors.size(), 1U) << name;
    EXPECT_EQ(errors[0].field, name);
  }
  errors.clear();
  Pairs queues{{"cursor", "orders"}};
  EXPECT_EQ(take_page(queues, Cursor::text, errors).cursor, "orders");
  EXPECT_EQ(errors, FieldErrors{});
}

TEST(Query, FiltersOfBulks) {
  FieldErrors errors;
  EXPECT_EQ(read_filter_object(Json{{"queue", "q"}, {"state", "parked"}}, errors).queue, "q");
  EXPECT_EQ(errors, FieldErrors{});
  read_filter_object(Json::object(), errors);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_TRUE(errors[0].detail.starts_with("an empty filter means every task"));
}

}  // namespace
}  // namespace rung::http
