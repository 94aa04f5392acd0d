// The columns that few tasks use, which a store may read as one: each alone, with every kind of text.
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

const std::vector<std::string>& odd_texts() {
  static const std::vector<std::string> texts{
      "plain",
      "\"",
      "\\",
      "a \"quoted\" 'word'",
      "C:\\temp\\new\\u0041",
      "tab\tline\n",
      "\x01\x1f\x7f",
      "a/b</x>",
      " blanks ",
      "%s ? :name",
      "[1,null,{}]",
      "null",
      "",
      "\u00fc\u20ac\u2028",
      "\U0001F600 \U0001F468\u200D\U0001F469",
  };
  return texts;
}

class RareColumnContract : public StoreContract {
 protected:
  // As apply() reads it, and as find() does.
  void expect_kept(const Task& task) {
    Task seen;
    const Event event{task.id, event::Claim{}};
    store_->apply(std::span(&event, 1), Fence{},
                  [&](const Task& row, const Happening&, const Circumstances&) {
                    seen = row;
                    return Decision{Verdict::stale, "only looks", row, {}, false};
                  });
    for (Task read : {seen, get(task.id)}) {
      EXPECT_EQ(read.rule, task.rule);
      EXPECT_EQ(read.uncounted_attempts, task.uncounted_attempts);
      EXPECT_EQ(read.uncounted_time, task.uncounted_time);
      EXPECT_EQ(read.moved_from, task.moved_from);
      EXPECT_EQ(read.probe, task.probe);
      EXPECT_EQ(read.rule_headers, task.rule_headers);
      read.cause = task.cause;  // the store sets it
      EXPECT_TRUE(read == task);
    }
  }
  // Inserts a task; apply() then changes it.
  void change_and_expect(const std::function<void(Task&)>& how) {
    NewTask fresh = task();
    insert(fresh);
    Task expected;
    const Event event{fresh.task.id, event::Claim{}};
    store_->apply(std::span(&event, 1), Fence{},
                  [&](const Task& row, const Happening&, const Circumstances&) {
                    Decision d{Verdict::applied, "", row, {}, false};
                    how(d.task);
                    ++d.task.version;
                    expected = d.task;
                    return d;
                  });
    expect_kept(expected);
  }
};

TEST_P(RareColumnContract, EachOfThemAloneIsKept) {
  change_and_expect([](Task& t) { t.uncounted_attempts = 2'000'000'000; });
  change_and_expect([](Task& t) { t.uncounted_time = Ms{9'007'199'254'740'993}; });
  change_and_expect([](Task& t) { t.probe = 2'000'000'000; });
  change_and_expect([](Task& t) { t.rule = "payments[2]"; });
  change_and_expect([](Task& t) { t.moved_from = "orders"; });
  change_and_expect([](Task& t) { t.replaced_by = {9'007'199'254'740'993}; });
  change_and_expect([](Task& t) { t.came_back = 4'000'000'000; });
  change_and_expect([](Task& t) { t.copy_number = t.version + 1; });
  change_and_expect([](Task& t) { t.copy_number = 4'000'000'000; });
}

TEST_P(RareColumnContract, TheirTextsAreKept) {
  for (const std::string& text : odd_texts()) {
    SCOPED_TRACE(text);
    change_and_expect([&](Task& t) { t.rule = text; });
    change_and_expect([&](Task& t) { t.moved_from = text; });
    change_and_expect([&](Task& t) { t.rule = t.moved_from = text; });
  }
}

// As of a task that comes from another group's database.
TEST_P(RareColumnContract, ANewTaskMayHaveHadAttempts) {
  NewTask fresh = task();
  fresh.task.attempt = 5;
  fresh.task.uncounted_attempts = 3;
  fresh.task.uncounted_time = Ms{90'061'007};
  insert(fresh);
  expect_kept(fresh.task);
}

TEST_P(RareColumnContract, TheHeadersOfRulesAreKept) {
  for (const std::string& text : odd_texts()) {
    SCOPED_TRACE(text);
    NewTask fresh = task();
    fresh.task.rule_headers = {{"tenant", text}};
    if (!text.empty()) fresh.task.rule_headers.emplace(text, "value");
    insert(fresh);
    expect_kept(fresh.task);
  }
  NewTask all = task();
  for (const std::string& text : odd_texts()) all.task.rule_headers.emplace("name " + text, text);
  all.task.rule = "give_up";
  all.task.moved_from = "\\";
  insert(all);
  expect_kept(all.task);
}

// A claim as a probe, its confirm and its failure, in batches of one and of many.
TEST_P(RareColumnContract, TheProbeIsKeptUntilTheNextClaim) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{12}}) {
    std::vector<Event> claims, confirms, failures, next;
    for (std::size_t i = 0; i < size; ++i) {
      const TaskId id = due_task("probed");
      claims.push_back({id, event::Claim{Ms{0}, Ms{0}, 17}});
      confirms.push_back({id, event::Confirmed{1, db_now()}});
    }
    for (const Decision& d : store_->apply(claims, fence(), decider())) EXPECT_EQ(d.task.probe, 17);
    store_->apply(confirms, fence(), decider());
    for (const Event& claim : claims) {
      EXPECT_EQ(get(claim.id).state, State::awaiting);
      EXPECT_EQ(get(claim.id).probe, 17);
      event::Failed failed{};
      failed.attempt = 1;
      failures.push_back({claim.id, failed});
    }
    for (const Decision& d : store_->apply(failures, fence(), decider())) {
      ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
      EXPECT_EQ(d.task.rule, "breaker");
      EXPECT_TRUE(get(d.task.id) == d.task);
      EXPECT_EQ(get(d.task.id).uncounted_attempts, 1);
      next.push_back({d.task.id, event::Claim{Ms{60'000}}});
    }
    for (const Decision& d : store_->apply(next, fence(), decider())) {
      EXPECT_EQ(d.task.probe, 0);
      EXPECT_TRUE(get(d.task.id) == d.task);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, RareColumnContract, testing::Values("memory", "mysql"),
                         [](const auto& kind) { return kind.param; });

// ---- The values of a header by which rate_by limits tasks.

class HeaderValuesContract : public StoreContract {};

TEST_P(HeaderValuesContract, TheValuesOfAHeaderAreFound) {
  NewTask with = task(), odd = task(), without = task();
  with.task.rule_headers = {{"tenant", "a"}, {"tier", "gold"}};
  odd.task.rule_headers = {{"tenant", " \u00fc \U0001F600 \"'\\ "}};
  for (const NewTask& n : {with, odd, without}) insert(n);
  const TaskId gone{4711};
  const std::vector<TaskId> ids{with.task.id, odd.task.id, without.task.id, gone};
  const std::map<TaskId, std::string> expected{
      {with.task.id, "a"}, {odd.task.id, " \u00fc \U0001F600 \"'\\ "}, {without.task.id, ""}};
  EXPECT_EQ(store_->header_values(ids, "tenant"), expected);
  EXPECT_EQ(store_->header_values(ids, "tier").at(with.task.id), "gold");
  EXPECT_TRUE(store_->header_values({}, "tenant").empty());
}

INSTANTIATE_TEST_SUITE_P(Stores, HeaderValuesContract, testing::Values("memory", "mysql"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace rung::test
