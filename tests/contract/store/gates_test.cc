// Pauses by hand: what is kept, recorded and shown.
#include <nlohmann/json.hpp>

#include "tests/contract/store/gate_world.h"

namespace rung::test {
namespace {

using nlohmann::json;

class PauseContract : public StoreContract {
 protected:
  static constexpr Ms kHour{3'600'000};

  Pause pause(const std::string& queue, std::optional<EpochMs> until = {}, const std::string& reason = "") {
    return must(store_->pause({queue, until, "ann@desk (test)", reason}));
  }
  std::optional<Pause> latest(const std::string& queue) {
    for (const Pause& one : must(store_->pauses())) {
      if (one.queue == queue) return one;
    }
    return std::nullopt;
  }
  std::vector<AuditRow> audit() { return must(store_->audit(TaskId{0})); }
  TaskId scheduled(const std::string& queue, EpochMs due, const std::string& exchange = "") {
    NewTask n = task(queue);
    n.task.exchange = exchange;
    n.task.next_at = due;
    EXPECT_EQ(must(store_->insert(std::span(&n, 1), Fence{0, {}, true})).at(0).how, Inserted::How::inserted);
    return n.task.id;
  }
};

TEST_P(PauseContract, APauseIsKeptUntilItIsResumed) {
  const EpochMs before = must(store_->now());
  const Pause made = pause("orders", {}, "the shop is down");
  EXPECT_GE(made.since, before);
  EXPECT_FALSE(made.over);
  auto other = open();
  const auto read = must(other->pauses());
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0], made);
  EXPECT_EQ(read[0].reason, "the shop is down");
  EXPECT_EQ(read[0].who, "ann@desk (test)");
  EXPECT_FALSE(read[0].until);

  const auto ended = must(other->resume("orders", "bob", "")).pause;
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->resumed_by, "bob");
  const auto last = latest("orders");
  ASSERT_TRUE(last) << "sidecars are told until when it was paused";
  EXPECT_TRUE(last->over);
  EXPECT_EQ(last->until, ended->until);
  EXPECT_EQ(last->since, made.since);
  EXPECT_EQ(last->who, "ann@desk (test)");
}

TEST_P(PauseContract, OnlyAPauseInForceIsResumed) {
  EXPECT_FALSE(must(store_->resume("orders", "bob", "")).any());
  pause("orders");
  EXPECT_FALSE(must(store_->resume("orders ", "bob", "")).any()) << "a blank makes it another queue";
  EXPECT_TRUE(must(store_->resume("orders", "bob", "")).any());
  EXPECT_FALSE(must(store_->resume("orders", "bob", "")).any());
  EXPECT_EQ(audit().size(), 2U);
}

TEST_P(PauseContract, APauseEndsByItself) {
  const EpochMs until = must(store_->now()) + Ms{50};
  pause("orders", until);
  EXPECT_EQ(latest("orders")->until, until);
  wait_until([&] { return latest("orders")->over; });
  EXPECT_GE(must(store_->now()), until);
  EXPECT_FALSE(must(store_->resume("orders", "bob", "")).any());
}

TEST_P(PauseContract, APauseInForceIsChangedAndKeepsItsBeginning) {
  const Pause first = pause("orders", {}, "down");
  const EpochMs until = must(store_->now()) + kHour;
  const Pause second = pause("orders", until, "still down");
  EXPECT_EQ(second.since, first.since);
  EXPECT_EQ(second.until, until);
  EXPECT_EQ(latest("orders"), second);
  const auto rows = audit();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(json::parse(rows[1].before)["reason"], "down");
  EXPECT_EQ(json::parse(rows[1].after)["reason"], "still down");

  pause("orders", until, "still down");
  EXPECT_EQ(audit().size(), 2U) << "a repeat after a lost answer";
}

TEST_P(PauseContract, APauseAfterAnotherBeginsAnew) {
  pause("orders");
  must(store_->resume("orders", "bob", ""));
  const EpochMs resumed = *latest("orders")->until;
  const Pause again = pause("orders");
  EXPECT_GE(again.since, resumed);
  EXPECT_FALSE(latest("orders")->over);
  EXPECT_EQ(latest("orders")->resumed_by, "");
}

TEST_P(PauseContract, QueuesThatDifferInABlankArePausedSeparately) {
  pause("orders", {}, "a");
  pause("orders ", {}, "b");
  pause("Orders", {}, "c");
  EXPECT_EQ(must(store_->pauses()).size(), 3U);
  EXPECT_TRUE(must(store_->resume("orders ", "bob", "")).any());
  EXPECT_FALSE(latest("orders")->over);
  EXPECT_TRUE(latest("orders ")->over);
}

TEST_P(PauseContract, WhoPausedAndResumedIsInTheAuditAndInTheEvents) {
  const EpochMs until = must(store_->now()) + kHour;
  pause("orders", until, "deploy");
  must(store_->resume("orders", "bob", ""));
  const auto rows = audit();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].what, "pause");
  EXPECT_EQ(rows[0].who, "ann@desk (test)");
  EXPECT_EQ(json::parse(rows[0].before), json::object());
  const json after = json::parse(rows[0].after);
  EXPECT_EQ(after["queue"], "orders");
  EXPECT_EQ(after["until"], format_utc(until));
  EXPECT_EQ(after["reason"], "deploy");
  EXPECT_EQ(rows[1].what, "resume");
  EXPECT_EQ(rows[1].who, "bob");

  const auto told = events(10);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[1].kind, "queue_paused");
  EXPECT_EQ(told[1].subject, "orders");
  EXPECT_EQ(told[1].detail, "until " + format_utc(until) + " UTC, by ann@desk (test): deploy");
  EXPECT_EQ(told[0].kind, "queue_resumed");
  EXPECT_EQ(told[0].subject, "orders");
  EXPECT_EQ(told[0].detail, "by bob");
}

class ShownPauses : public PauseContract {};

TEST_P(ShownPauses, EachQueueThatWaitsOrIsPausedIsShown) {
  const EpochMs due = must(store_->now()) + kHour;
  scheduled("orders", due + Ms{1});
  scheduled("orders", due);
  scheduled("invoices", due);
  scheduled("", due, "an-exchange");
  const Pause made = pause("orders", {}, "down");
  pause("empty");
  pause("orders ");
  const auto gates = shown_queues(*mysql_);
  ASSERT_EQ(gates.size(), 4U);
  EXPECT_EQ(gates[0].queue, "empty");
  EXPECT_EQ(gates[0].state, "paused");
  EXPECT_EQ(gates[0].waiting, 0);
  EXPECT_FALSE(gates[0].next_at);
  EXPECT_EQ(gates[1].queue, "invoices");
  EXPECT_EQ(gates[1].state, "flowing");
  EXPECT_EQ(gates[1].waiting, 1);
  EXPECT_FALSE(gates[1].since);
  EXPECT_EQ(gates[2].queue, "orders");
  EXPECT_EQ(gates[2].state, "paused");
  EXPECT_EQ(gates[2].since, made.since);
  EXPECT_EQ(gates[2].reason, "down");
  EXPECT_EQ(gates[2].by, "ann@desk (test)");
  EXPECT_EQ(gates[2].waiting, 2);
  EXPECT_EQ(gates[2].next_at, due);
  EXPECT_EQ(gates[3].queue, "orders ");
  EXPECT_EQ(gates[3].waiting, 0);
}

TEST_P(PauseContract, DueTasksAreFoundWithoutThoseOfPausedQueues) {
  const Fence fence = join(*store_, "a");
  const EpochMs due = must(store_->now()) - Ms{1000};
  for (int i = 0; i < 30; ++i) scheduled("orders", due);
  const TaskId other = scheduled("orders ", due + Ms{1});
  const TaskId invoice = scheduled("invoices", due + Ms{2});  // later: both may be in one shard
  const std::vector<std::string> without{"orders"};
  for (const int per_shard : {1, 100}) {
    const auto found = must(
        store_->due(State::scheduled, all_shards(), std::nullopt, must(store_->now()), per_shard, without));
    std::set<TaskId> ids;
    for (const DueEntry& entry : found) ids.insert(entry.id);
    const std::set<TaskId> expected =
        per_shard == 1 && get(*store_, other).shard == get(*store_, invoice).shard ? std::set<TaskId>{other}
                                                                                   : std::set{other, invoice};
    EXPECT_EQ(ids, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, ShownPauses, testing::Values("mysql"));
INSTANTIATE_TEST_SUITE_P(Stores, PauseContract, testing::Values("memory", "mysql"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace rung::test
