// What instances share about the gates of queues.
#include "tests/contract/store/gate_world.h"

namespace rung::test {
namespace {

using BreakerIs = Breaker::State;

class GateStateContract : public GateWorld {};

TEST_P(GateStateContract, AQueueIsNewUntilItIsChanged) {
  EXPECT_TRUE(store_->gate_states().empty());
  const EpochMs before = db_now();
  EpochMs seen;
  const GateState after = change("orders", [&](GateState& state, EpochMs now) {
    EXPECT_EQ(state.queue, "orders");
    EXPECT_TRUE(state.breaker == Breaker{});
    EXPECT_FALSE(state.retry_after || state.outside || state.limited);
    seen = now;
  });
  EXPECT_GE(seen, before);
  EXPECT_LE(seen, db_now());
  EXPECT_GE(after.seen_at, before);
  EXPECT_EQ(read("orders"), after);
}

TEST_P(GateStateContract, EveryFieldIsKept) {
  const EpochMs now = db_now();
  const GateState written = change("orders", [&](GateState& state, EpochMs) {
    Breaker& breaker = state.breaker;
    breaker = open_breaker(now);
    breaker.state = BreakerIs::half_open;
    breaker.until.reset();
    breaker.opened = 3;
    breaker.opened_at = now - Ms{90'061};
    breaker.outcomes = "..xx.x";
    breaker.succeeded = 2;
    breaker.last_probe = 1'000'017;
    breaker.probes = {{1'000'016, now - Ms{5}, true}, {1'000'017, now, false}};
    state.retry_after = {now - Ms{1}, now + Ms{1001}, "task 17 asked for 1s"};
    state.outside = {now - Ms{2}, now + Ms{2002}, "window Mon-Fri 08:00-18:00 Europe/Berlin"};
    state.limited = {now - Ms{3}, now + Ms{3003}, "rate 200/s"};
    state.seen_at = now - Ms{12'345};
  });
  EXPECT_EQ(written.breaker.probes.size(), 2U);
  EXPECT_EQ(read("orders"), written);

  // And back to a queue without anything.
  const GateState cleared = change("orders", [&](GateState& state, EpochMs) {
    state = {};
    state.queue = "orders";
    state.seen_at = now;
  });
  EXPECT_EQ(read("orders"), cleared);
  EXPECT_TRUE(cleared.breaker == Breaker{});
}

TEST_P(GateStateContract, ABreakerWithAThousandOutcomesIsKept) {
  const std::string outcomes = std::string(999, '.') + "x";
  change("orders", [&](GateState& state, EpochMs) { state.breaker.outcomes = outcomes; });
  EXPECT_EQ(read("orders")->breaker.outcomes, outcomes);
}

TEST_P(GateStateContract, ALongReasonIsCutAndDoesNotFail) {
  const std::string text(4000, 'e');
  change("orders", [&](GateState& state, EpochMs now) {
    state.breaker = open_breaker(now);
    state.breaker.reason = text;
    state.retry_after = {now, now + kLong, text};
    state.outside = state.limited = state.retry_after;
  });
  const auto state = read("orders");
  ASSERT_TRUE(state && state->retry_after);
  EXPECT_THAT(state->breaker.reason, testing::StartsWith("eeee"));
  EXPECT_THAT(state->retry_after->reason, testing::StartsWith("eeee"));
}

TEST_P(GateStateContract, QueuesThatDifferInABlankHaveTheirOwnGates) {
  for (const char* queue : {"a", "a ", "A", "\u00fc\U0001F600'\"\\"}) {
    change(queue, [&](GateState& state, EpochMs now) {
      EXPECT_FALSE(state.limited) << queue;
      state.limited = {now, now + kLong, queue};
    });
  }
  EXPECT_EQ(store_->gate_states().size(), 4U);
  EXPECT_EQ(read("a")->limited->reason, "a");
  EXPECT_EQ(read("a ")->limited->reason, "a ");
  change("a ", [&](GateState& state, EpochMs) { state.limited.reset(); });
  EXPECT_TRUE(read("a")->limited);
  EXPECT_FALSE(read("a ")->limited);
}

TEST_P(GateStateContract, TheEventsOfAChangeAreRecorded) {
  store_->change_gate("orders", [&](GateState& state, EpochMs now) {
    state.breaker = open_breaker(now);
    return std::vector<SystemEvent>{{"breaker_opened", "orders", state.breaker.reason},
                                    {"second", "orders", ""}};
  });
  // Also if nothing else changes.
  store_->change_gate("orders", [&](GateState&, EpochMs) {
    return std::vector<SystemEvent>{{"third", "orders", std::string(5000, 'x')}};
  });
  const auto told = events(10);
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[2].kind, "breaker_opened");
  EXPECT_EQ(told[2].subject, "orders");
  EXPECT_THAT(told[2].detail, testing::HasSubstr("\\refused\" \u00fc \U0001F600"));
  EXPECT_EQ(told[1].kind, "second");
  EXPECT_EQ(told[0].kind, "third");
}

// They also create the row at the same time.
TEST_P(GateStateContract, ConcurrentChangesLoseNothing) {
  constexpr int kThreads = 4, kChanges = 25;
  in_threads(kThreads, [&](int) {
    const auto mine = open();
    for (int i = 0; i < kChanges; ++i) {
      mine->change_gate("orders", [](GateState& state, EpochMs) {
        ++state.breaker.last_probe;
        return std::vector<SystemEvent>{{"counted", "orders", ""}};
      });
    }
  });
  EXPECT_EQ(read("orders")->breaker.last_probe, kThreads * kChanges);
  EXPECT_EQ(events(1000).size(), static_cast<std::size_t>(kThreads * kChanges));
}

// ------------------------------------------------------------------------------------------------- batches

TEST_P(GateStateContract, ABatchChangesManyQueuesAtOnce) {
  GateBatch batch;
  for (std::size_t i = 0; i < GateBatch::kMost - 2; ++i)
    batch.queues.push_back("orders-" + std::to_string(i));
  batch.queues.insert(batch.queues.end(), {"orders", "orders "});
  change("orders-7", [](GateState& state, EpochMs) { state.breaker.last_probe = 100; });
  batch.change = [](GateState& state, EpochMs) {
    ++state.breaker.last_probe;
    return std::vector<SystemEvent>{{"counted", state.queue, ""}};
  };
  const auto states = store_->change_gates(batch);
  ASSERT_EQ(states.size(), GateBatch::kMost);
  for (std::size_t i = 0; i < states.size(); ++i) {
    EXPECT_EQ(states[i].queue, batch.queues[i]);
    EXPECT_EQ(states[i].breaker.last_probe, i == 7 ? 101 : 1);
  }
  EXPECT_EQ(read("orders "), states.back());
  EXPECT_EQ(events(1000).size(), GateBatch::kMost);
}

TEST_P(GateStateContract, ABatchThatIsRepeatedAfterALostAnswerCountsOnce) {
  int calls = 0;
  const auto batch = [&](const std::string& maker, const std::string& id) {
    return GateBatch{{"orders"},
                     [&](GateState& state, EpochMs) {
                       ++calls;
                       ++state.breaker.last_probe;
                       return std::vector<SystemEvent>{};
                     },
                     maker,
                     id};
  };
  store_->change_gates(batch("a", "17-1"));
  auto other = open();
  EXPECT_EQ(other->change_gates(batch("b", "18-1")).at(0).breaker.last_probe, 2);
  EXPECT_EQ(other->change_gates(batch("a", "17-1")).at(0).breaker.last_probe, 2)
      << "also after another instance's change";
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(store_->change_gates(batch("a", "17-2")).at(0).breaker.last_probe, 3);
  EXPECT_EQ(store_->change_gates(batch("a", "19-1")).at(0).breaker.last_probe, 4) << "after a restart";
}

// In two orders: they lock the rows in one.
TEST_P(GateStateContract, ConcurrentBatchesLoseNothing) {
  constexpr int kThreads = 4, kBatches = 10, kQueues = 50;
  in_threads(kThreads, [&](int t) {
    const auto mine = open();
    for (int i = 0; i < kBatches; ++i) {
      GateBatch batch{{}, [](GateState& state, EpochMs) {
                        ++state.breaker.last_probe;
                        return std::vector<SystemEvent>{};
                      }};
      for (int q = 0; q < kQueues; ++q) batch.queues.push_back("q" + std::to_string(q));
      if (t % 2 == 1) std::ranges::reverse(batch.queues);
      mine->change_gates(batch);
    }
  });
  for (const GateState& state : store_->gate_states())
    EXPECT_EQ(state.breaker.last_probe, kThreads * kBatches) << state.queue;
}

TEST_P(GateStateContract, OnlyWhatHasChangedIsRead) {
  change("old", [](GateState& state, EpochMs) { state.breaker.last_probe = 1; });
  store_->pause({"old", {}, "ann", ""});
  const EpochMs changed = db_now();
  EpochMs since;
  wait_until([&] { return (since = db_now()) > changed + Ms{20}; });
  EXPECT_TRUE(store_->gate_states(since).empty());
  EXPECT_TRUE(store_->pauses(since).empty());
  change("new", [](GateState& state, EpochMs) { state.breaker.last_probe = 1; });
  store_->pause({"new", {}, "ann", ""});
  ASSERT_EQ(store_->gate_states(since).size(), 1U);
  EXPECT_EQ(store_->gate_states(since)[0].queue, "new");
  ASSERT_EQ(store_->pauses(since).size(), 1U);
  store_->resume("old", "ann", "");
  EXPECT_EQ(store_->pauses(since).size(), 2U);
  EXPECT_EQ(store_->pauses().size(), 2U);
  EXPECT_EQ(store_->gate_states().size(), 2U);
}

// By hand, or by a newer version.
TEST_P(GateStateContract, OfADamagedRowWhatCanBeReadAppliesAndTheOthersAreRead) {
  const EpochMs now = db_now();
  const std::vector<std::pair<std::string, std::string>> damages{
      {"breaker_detail", "x"},
      {"breaker_detail", "[]"},
      {"breaker_detail", R"({"opened":"x"})"},
      {"breaker_detail", R"({"opened_at":1e300,"outcomes":7})"},
      {"breaker_detail", R"({"probes":[[1]]})"},
      {"breaker_detail", R"({"probes":[["a",2,true],7]})"},
      {"breaker_detail", R"({"probes":{"number":1}})"}};
  for (std::size_t i = 0; i <= damages.size(); ++i) {
    const std::string queue = "q" + std::to_string(i);
    change(queue, [&](GateState& state, EpochMs) {
      state.breaker = open_breaker(now);
      state.retry_after = {now, now + kLong, "task 1"};
    });
    if (i == damages.size()) continue;
    if (memory_) memory_->damage_gates(queue);
    if (mysql_)
      mysql_->exec("UPDATE rung_gates SET " + damages[i].first + " = '" + damages[i].second +
                   "' WHERE queue = '" + queue + "'");
  }
  const auto states = store_->gate_states();
  ASSERT_EQ(states.size(), damages.size() + 1);
  for (const GateState& state : states) {
    EXPECT_EQ(state.damaged, state.queue != "q" + std::to_string(damages.size())) << state.queue;
    EXPECT_EQ(state.breaker.state, BreakerIs::open) << state.queue;
    EXPECT_EQ(state.breaker.until, now + Ms{30'000}) << state.queue;
    EXPECT_NE(state.breaker.opened_at.ms, 0) << state.queue;
    EXPECT_TRUE(state.retry_after) << state.queue;
    change(state.queue, [](GateState& one, EpochMs) { ++one.breaker.last_probe; });
    EXPECT_FALSE(read(state.queue)->damaged) << "a change writes it anew";
  }
}

TEST_P(GateStateContract, AResumeEndsARetryAfterToo) {
  const EpochMs now = db_now();
  change("orders", [&](GateState& state, EpochMs) {
    state.retry_after = {now, now + kLong, "task 17 asked for 1h"};
  });
  EXPECT_FALSE(store_->resume("orders ", "bob", "").any());
  const Resumed ended = store_->resume("orders", "bob", "the partner is back");
  EXPECT_FALSE(ended.pause);
  ASSERT_TRUE(ended.retry_after);
  EXPECT_EQ(ended.retry_after->since, now);
  EXPECT_LT(*ended.retry_after->until, now + kLong);
  EXPECT_EQ(ended.retry_after->who, "retry-after");
  EXPECT_EQ(ended.retry_after->resumed_by, "bob");
  EXPECT_EQ(read("orders")->retry_after->until, ended.retry_after->until);
  EXPECT_EQ(events(10).at(0).kind, "queue_resumed");
  const auto audit = store_->audit(TaskId{0});
  ASSERT_EQ(audit.size(), 1U);
  EXPECT_EQ(audit[0].what, "resume");
  EXPECT_THAT(audit[0].before, testing::HasSubstr("task 17 asked for 1h"));
  EXPECT_FALSE(store_->resume("orders", "bob", "").any());
  // Both.
  store_->pause({"orders", {}, "ann", ""});
  change("orders", [&](GateState& state, EpochMs at) { state.retry_after = {at, at + kLong, ""}; });
  const Resumed both = store_->resume("orders", "bob", "");
  EXPECT_TRUE(both.pause && both.retry_after);
}

INSTANTIATE_TEST_SUITE_P(Stores, GateStateContract, testing::Values("memory", "mysql"),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace rung::test
