// What people see of the gates of queues: the view retry_queues.
#include <array>
#include <map>
#include <utility>

#include "tests/contract/store/gate_world.h"

namespace rung::test {
namespace {

class GateViewContract : public GateWorld {};

TEST_P(GateViewContract, EachGateHasItsWord) {
  const EpochMs now = must(store_->now());
  const GateState::Hold hold{now, now + kLong, "why"};
  change("hold", [&](GateState& state, EpochMs) { state.retry_after = hold; });
  change("outside", [&](GateState& state, EpochMs) { state.outside = hold; });
  change("limited", [&](GateState& state, EpochMs) { state.limited = hold; });
  change("open", [&](GateState& state, EpochMs) { state.breaker = open_breaker(now); });
  change("waited", [&](GateState& state, EpochMs) {
    state.breaker = open_breaker(now);
    state.breaker.until = now;
  });
  change("half open", [&](GateState& state, EpochMs) {
    state.breaker = open_breaker(now);
    state.breaker.state = Breaker::State::half_open;
    state.breaker.until.reset();
  });
  change("closed again", [&](GateState& state, EpochMs) { state.breaker.since = now; });
  const auto gates = shown_queues(*mysql_);
  EXPECT_EQ(gates.size(), 6U);
  const auto expect = [&](const std::string& queue, const std::string& word, const std::string& by,
                          std::optional<EpochMs> until, const std::string& reason) {
    const QueueGate gate = shown(queue);
    EXPECT_EQ(gate.state, word) << queue;
    EXPECT_EQ(gate.since, now) << queue;
    EXPECT_EQ(gate.until, until) << queue;
    EXPECT_EQ(gate.reason, reason) << queue;
    EXPECT_EQ(gate.by, by) << queue;
    EXPECT_EQ(gate.waiting, 0) << queue;
    EXPECT_FALSE(gate.next_at) << queue;
  };
  const std::string opened = open_breaker(now).reason;
  expect("hold", "paused", "retry-after", hold.until, "why");
  expect("outside", "outside_window", "", hold.until, "why");
  expect("limited", "rate_limited", "", hold.until, "why");
  expect("open", "breaker_open", "", now + Ms{30'000}, opened);
  expect("waited", "breaker_half_open", "", now, opened);
  expect("half open", "breaker_half_open", "", std::nullopt, opened);
}

TEST_P(GateViewContract, OfSeveralGatesTheStrongestIsShownWithAllThatWaits) {
  const EpochMs due = must(store_->now()) + kLong;
  waiting("orders", due + Ms{1});
  waiting("orders", due);
  waiting("orders ", due);
  must(store_->pause({"orders", {}, "ann", "down"}));
  const EpochMs now = must(store_->now());
  change("orders", [&](GateState& state, EpochMs) {
    state.outside = {now, now + kLong, "outside"};
    state.retry_after = {now, now + kLong, "retry-after"};
    state.breaker = open_breaker(now);
    state.limited = {now, now + kLong, "limited"};
  });
  const auto expect = [&](const std::string& word, const std::string& reason) {
    const QueueGate gate = shown("orders");
    EXPECT_EQ(gate.state, word);
    EXPECT_EQ(gate.reason, reason);
    EXPECT_EQ(gate.waiting, 2);
    EXPECT_EQ(gate.next_at, due);
    EXPECT_EQ(shown_queues(*mysql_).size(), 2U);
    EXPECT_EQ(shown("orders ").state, "flowing");
    EXPECT_EQ(shown("orders ").waiting, 1);
  };
  expect("paused", "down");
  must(store_->resume("orders", "ann", ""));  // ends the retry-after as well
  change("orders", [&](GateState& state, EpochMs) { state.retry_after = {now, now + kLong, "retry-after"}; });
  expect("outside_window", "outside");
  change("orders", [](GateState& state, EpochMs) { state.outside.reset(); });
  expect("paused", "retry-after");
  change("orders", [](GateState& state, EpochMs) { state.retry_after.reset(); });
  expect("breaker_open", open_breaker(now).reason);
  change("orders", [](GateState& state, EpochMs) { state.breaker = {}; });
  expect("rate_limited", "limited");
  change("orders", [](GateState& state, EpochMs) { state.limited.reset(); });
  expect("flowing", "");
}

// The order of gates is in SQL, too: it is compared with gate_in_force() for all gates that are there, have
// ended, or are not confirmed.
TEST_P(GateViewContract, TheViewShowsWhatIsInForce) {
  enum class Is { absent, in_force, over };
  constexpr std::array kAll{Is::absent, Is::in_force, Is::over};
  const EpochMs now = must(store_->now());
  const auto ends = [&](Is is) { return is == Is::over ? now - kLong : now + kLong; };
  std::map<std::string, GateState> states;
  for (const Is pause : kAll) {
    for (int i = 0; i < 3 * 3 * 3 * 3 * 2; ++i) {
      const auto digit = [&](int place) { return kAll[static_cast<std::size_t>(i / place % 3)]; };
      const std::string queue = std::to_string(static_cast<int>(pause)) + "-" + std::to_string(i);
      if (pause != Is::absent) must(store_->pause({queue, ends(pause), "ann", "by hand"}));
      GateState& state = states[queue];
      const auto hold = [&](Is is, const char* reason) {
        return is == Is::absent ? std::nullopt
                                : std::optional(GateState::Hold{now - kLong, ends(is), reason});
      };
      state.outside = hold(digit(1), "outside");
      state.retry_after = hold(digit(3), "retry-after");
      state.limited = hold(digit(9), "limited");
      if (digit(27) != Is::absent) {
        state.breaker = open_breaker(now - kLong);
        state.breaker.until = ends(digit(27));
      }
      state.seen_at = i < 81 ? now : now - Ms{61'000};
    }
  }
  GateBatch batch;
  for (const auto& [queue, state] : states) batch.queues.push_back(queue);
  batch.change = [&](GateState& state, EpochMs) {
    const std::string queue = std::exchange(state, states.at(state.queue)).queue;
    state.queue = queue;
    return std::vector<SystemEvent>{};
  };
  must(store_->change_gates(batch));
  std::map<std::string, Pause> pauses;
  for (const Pause& pause : must(store_->pauses())) pauses[pause.queue] = pause;
  std::map<std::string, QueueGate> shown;
  for (const QueueGate& gate : shown_queues(*mysql_)) shown[gate.queue] = gate;
  for (const GateState& state : must(store_->gate_states())) {
    const auto pause = pauses.find(state.queue);
    const auto expected =
        gate_in_force(held_by(pause == pauses.end() ? nullptr : &pause->second, &state, now), now);
    ASSERT_EQ(shown.contains(state.queue), expected.has_value()) << state.queue;
    if (!expected) continue;
    const QueueGate& gate = shown[state.queue];
    EXPECT_EQ(gate.state, expected->word) << state.queue;
    EXPECT_EQ(gate.since, expected->since) << state.queue;
    EXPECT_EQ(gate.until, expected->until) << state.queue;
    EXPECT_EQ(gate.reason, expected->reason) << state.queue;
    EXPECT_EQ(gate.by, expected->who) << state.queue;
  }
}

TEST_P(GateViewContract, WhatHasEndedHoldsNothingBack) {
  const EpochMs now = must(store_->now());
  const GateState::Hold over{now - Ms{2}, now - Ms{1}, "over"};
  change("orders",
         [&](GateState& state, EpochMs) { state.retry_after = state.outside = state.limited = over; });
  EXPECT_TRUE(shown_queues(*mysql_).empty());
}

TEST_P(GateViewContract, AGateThatNoInstanceHasConfirmedForAMinuteIsNotInForce) {
  const EpochMs now = must(store_->now());
  for (const bool confirmed : {true, false}) {
    const auto seen = now - (confirmed ? Ms{50'000} : Ms{61'000});
    change("open", [&](GateState& state, EpochMs) {
      state.breaker = open_breaker(now);
      state.seen_at = seen;
    });
    change("outside", [&](GateState& state, EpochMs) {
      state.outside = {now, now + kLong, "window"};
      state.seen_at = seen;
    });
    EXPECT_EQ(shown_queues(*mysql_).size(), confirmed ? 2U : 0U);
  }
  // A consumer's wish is none of the config's.
  change("open", [&](GateState& state, EpochMs) { state.retry_after = {now, now + kLong, "task 1"}; });
  EXPECT_EQ(shown("open").state, "paused");
}

INSTANTIATE_TEST_SUITE_P(Stores, GateViewContract, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
