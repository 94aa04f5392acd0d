// Redrives that look at their own outcome (src/bridge/changes/bulk.h): what the store does for
// them.
#include <atomic>
#include <nlohmann/json.hpp>

#include "src/api/tasks/tasks.h"
#include "tests/contract/store/by_hand.h"

namespace rung::test {
namespace {

class CarefulRedrive : public ByHandTest {
 protected:
  NewBulk redrive(const std::string& queue = "orders") {
    NewBulk asked = cancel_all(queue);
    asked.action = BulkAction::redrive;
    return asked;
  }
};

TEST_P(CarefulRedrive, ItsCareIsKept) {
  NewBulk asked = redrive();
  asked.rate = 100;
  asked.care = {.canary = 10, .watch = Ms{120'000}, .ramp = true, .stop_above = 2.5};
  const Bulk made = store_->create_bulk(asked);
  EXPECT_EQ(made.care, asked.care);
  EXPECT_EQ(made.action, BulkAction::redrive);
  EXPECT_EQ(store_->bulk(made.id)->care, asked.care);
  EXPECT_FALSE(made.canary_done);
  ASSERT_TRUE(store_->take_bulk("us", kTtl)) << "a process of this release runs it";
  NewBulk plain = redrive();
  EXPECT_EQ(store_->create_bulk(plain).care, Care{});
}

TEST_P(CarefulRedrive, WhatHasNoBodyIsLeftOutAndCounted) {
  NewTask bodiless = task();
  begin_parked(bodiless.task, "too large", *rules(), db_now());
  bodiless.task.rule = kNotStored;
  insert(bodiless);
  parked();
  if (mysql_) {
    const auto dry = api::dry_run(database(), redrive(), std::nullopt, *rules());
    EXPECT_EQ(dry.at("count"), 1);
    EXPECT_EQ(dry.at("without_body"), 1);
  }
  EXPECT_EQ(store_->create_bulk(redrive()).total, 1);
}

TEST_P(CarefulRedrive, WhatBecameOfWhatItSent) {
  const TaskId fails = parked(), succeeds = parked(), waits = parked(), unsent = parked(), claimed = parked(),
               later = parked();
  const Bulk made = store_->create_bulk(redrive());
  EXPECT_TRUE(store_->sent_by_bulk(made.id, 10).empty());
  ASSERT_TRUE(store_->take_bulk("us", kTtl));
  EXPECT_EQ(step(made, "us", 5), 5U);
  for (const TaskId id : {fails, succeeds, waits}) deliver(id);
  applied(fails, event::Failed{1, "connection refused", "", {}});
  applied(succeeds, event::Succeeded{1});
  wait_until_applied(claimed, event::Claim{});
  auto sent = store_->sent_by_bulk(made.id, 10);
  ASSERT_EQ(sent.size(), 5U) << "not " << later.str();
  EXPECT_EQ(sent[0].id, claimed);
  EXPECT_FALSE(sent[0].published_at) << "the broker has not answered";
  sent.erase(sent.begin());
  EXPECT_EQ(sent[3].id, fails);
  EXPECT_EQ(sent[3].outcome, Outcome::failed);
  EXPECT_EQ(sent[3].error, "connection refused");
  EXPECT_EQ(sent[3].queue, "orders");
  EXPECT_EQ(sent[2].outcome, Outcome::succeeded);
  EXPECT_EQ(sent[1].outcome, Outcome::pending);
  EXPECT_TRUE(sent[1].published_at);
  EXPECT_EQ(sent[1].state, State::awaiting);
  EXPECT_FALSE(sent[1].held);
  EXPECT_EQ(sent[0].id, unsent);
  EXPECT_FALSE(sent[0].published_at);
  EXPECT_EQ(store_->sent_by_bulk(made.id, 2).size(), 2U) << "the last ones";
  // The next attempt of the one that failed is not what the bulk has sent.
  deliver(fails);
  applied(fails, event::Succeeded{2});
  EXPECT_EQ(store_->sent_by_bulk(made.id, 10)[4].outcome, Outcome::failed);
}

// Each sees what the others have frozen, also if they begin at the same time.
TEST_P(CarefulRedrive, CreatedAtOnceTheyShareNoTask) {
  constexpr int kTasks = 200, kAtOnce = 4;
  for (int i = 0; i < kTasks; ++i) parked();
  std::atomic<std::int64_t> all = 0;
  in_threads(kAtOnce, [&](int) {
    const auto store = open();
    for (int i = 0; i < 5; ++i) all += store->create_bulk(redrive()).total;
  });
  EXPECT_EQ(all, kTasks);
}

TEST_P(CarefulRedrive, AnAttemptBeforeItIsNotItsOutcome) {
  const TaskId id = parked();
  Bulk first = store_->create_bulk(redrive());
  ASSERT_TRUE(store_->take_bulk("us", kTtl));
  EXPECT_EQ(step(first, "us", 10), 1U);
  deliver(id);
  Directives never;
  never.never = true;
  applied(id, event::Failed{1, "no", "", never});
  EXPECT_EQ(step(first, "us", 10), 0U) << "it is complete";
  const Bulk second = store_->create_bulk(redrive());
  ASSERT_EQ(second.total, 1);
  ASSERT_TRUE(store_->take_bulk("us", kTtl));
  EXPECT_EQ(step(second, "us", 10), 1U);
  EXPECT_EQ(store_->sent_by_bulk(second.id, 10).at(0).outcome, Outcome::pending);
  deliver(id);
  applied(id, event::Succeeded{2});
  EXPECT_EQ(store_->sent_by_bulk(second.id, 10).at(0).outcome, Outcome::succeeded);
  EXPECT_EQ(store_->sent_by_bulk(first.id, 10).at(0).outcome, Outcome::failed);
}

TEST_P(CarefulRedrive, ItWaitsGoesOnAndStops) {
  parked();
  parked();
  NewBulk asked = redrive();
  asked.care.canary = 1;
  const Bulk made = store_->create_bulk(asked);
  ASSERT_TRUE(store_->take_bulk("us", kTtl));
  EXPECT_EQ(step(made, "us", 1), 1U);
  const auto here = [&] { return BulkStep{made.id, "us", store_->bulk(made.id)->last}; };
  using Go = BulkVerdict::Go;
  store_->judge_bulk(here(), {Go::wait, "..."}, Ms{60'000});
  EXPECT_FALSE(store_->take_bulk("us", kTtl)) << "for a minute";
  EXPECT_FALSE(store_->take_bulk("them", kTtl));
  store_->judge_bulk(here(), {Go::passed, ""}, Ms{0});
  EXPECT_EQ(store_->bulk(made.id)->canary_done, 1);
  store_->judge_bulk({made.id, "them", here().from}, {Go::stop, "no"}, Ms{0});
  store_->judge_bulk({made.id, "us", TaskId{1}}, {Go::stop, "no"}, Ms{0});
  EXPECT_EQ(store_->bulk(made.id)->state, BulkState::running) << "neither has it";
  store_->judge_bulk(here(), {Go::stop, "2 of 10 failed"}, Ms{0});
  const Bulk end = *store_->bulk(made.id);
  EXPECT_EQ(end.state, BulkState::stopped) << "aborted is by a person";
  EXPECT_EQ(end.stopped_because, "2 of 10 failed");
  EXPECT_TRUE(end.finished_at);
  const auto all = events(10);
  const auto told = std::ranges::find(all, "bulk_stopped", &SystemEvent::kind);
  ASSERT_NE(told, all.end());
  EXPECT_EQ(told->subject, std::to_string(made.id));
  EXPECT_EQ(told->detail, "2 of 10 failed");
  EXPECT_EQ(std::ranges::count(all, "bulk_stopped", &SystemEvent::kind), 1);
}

TEST_P(CarefulRedrive, ATaskHasOneOpenRedrive) {
  parked("presumed");
  const TaskId second = parked("presumed");
  const Bulk made = store_->create_bulk(redrive("presumed"));
  EXPECT_EQ(made.total, 2);
  EXPECT_EQ(store_->create_bulk(redrive("presumed")).total, 0) << "another one has them";
  NewBulk discard = cancel_all("presumed");
  discard.action = BulkAction::discard;
  EXPECT_EQ(store_->create_bulk(discard).total, 2);
  ASSERT_TRUE(store_->take_bulk("us", kTtl));
  EXPECT_EQ(step(made, "us", 1), 1U);
  // A person sends the second one alone; it succeeds, as its silence says. The bulk does not send it again.
  EXPECT_EQ(change(second, event::Redrive{}).verdict, Verdict::applied);
  deliver(second);
  wait_until_applied(second, event::SilenceOver{});
  EXPECT_EQ(get(second).state, State::succeeded);
  EXPECT_EQ(step(made, "us", 1), 1U);
  EXPECT_EQ(get(second).state, State::succeeded) << "it was sent since the bulk was created";
  EXPECT_EQ(store_->bulk(made.id)->applied, 1);
  step(made, "us", 1);
  EXPECT_EQ(store_->bulk(made.id)->state, BulkState::done);
}

INSTANTIATE_TEST_SUITE_P(Stores, CarefulRedrive, testing::Values("memory", "mysql"),
                         [](const auto& p) { return p.param; });

}  // namespace
}  // namespace rung::test
