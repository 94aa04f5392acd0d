#include "src/api/queues/gates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "src/api/queues/pauses.h"
#include "tests/support/memory/memory_store.h"

namespace rung::api {
namespace {

using ::testing::HasSubstr;

constexpr Ms kMinute{60'000};

class HeldBack : public testing::Test {
 protected:
  HeldBack() { EXPECT_TRUE(store_->migrate()); }

  EpochMs now() { return store_->now().value(); }
  void change(const std::function<void(GateState&, EpochMs)>& how) {
    EXPECT_TRUE(store_->change_gate("orders", [&](GateState& state, EpochMs at) {
      how(state, at);
      return std::vector<SystemEvent>{};
    }));
  }
  // What holds back a task of the queue that is due in `away`; "" = nothing.
  std::string held(Ms away, State state = State::scheduled) {
    Task task;
    task.queue = "orders";
    task.state = state;
    task.next_at = now() + away;
    const auto gate = holding_gate(*store_, task).value();
    return gate ? gate->state : "";
  }

  std::unique_ptr<Store> store_ = open_memory_store(std::make_shared<MemoryDb>());
};

Breaker opened(EpochMs now) {
  Breaker breaker;
  breaker.state = Breaker::State::open;
  breaker.since = breaker.opened_at = now;
  breaker.until = now + kMinute;
  breaker.reason = "20 of the last 100 deliveries failed";
  return breaker;
}

TEST_F(HeldBack, ByTheGateThatEndsAfterTheTaskIsDue) {
  EXPECT_EQ(held(Ms{0}), "");
  change([](GateState& state, EpochMs at) { state.outside = {at, at + kMinute, "window"}; });
  EXPECT_EQ(held(-kMinute), "outside_window");
  EXPECT_EQ(held(kMinute / 2), "outside_window");
  EXPECT_EQ(held(kMinute * 2), "") << "it is inside the window by then";
  EXPECT_EQ(held(-kMinute, State::awaiting), "");
  change([](GateState& state, EpochMs at) { state.breaker = opened(at), state.outside.reset(); });
  EXPECT_EQ(held(Ms{0}), "breaker_open");
  EXPECT_EQ(held(kMinute * 2), "");
  ASSERT_TRUE(store_->pause({"orders", {}, "ann", ""}));
  EXPECT_EQ(held(kMinute * 2), "paused");
}

TEST_F(HeldBack, ByARateOrAHalfOpenBreakerOnlyWhenTheTaskIsDue) {
  change([](GateState& state, EpochMs at) { state.limited = {at, at + kMinute, "rate 5/s"}; });
  EXPECT_EQ(held(Ms{0}), "rate_limited");
  EXPECT_EQ(held(kMinute / 2), "");
  change([](GateState& state, EpochMs at) {
    state.breaker = opened(at);
    state.breaker.until = at;
  });
  EXPECT_EQ(held(Ms{0}), "breaker_half_open");
  EXPECT_EQ(held(kMinute / 2), "");
}

TEST_F(HeldBack, EveryQueueThatIsHeldBackIsListed) {
  EXPECT_TRUE(gates_in_force(*store_).value().empty());
  ASSERT_TRUE(store_->pause({"invoices", {}, "ann", ""}));
  change([](GateState& state, EpochMs at) { state.breaker = opened(at); });
  const auto gates = gates_in_force(*store_).value();
  ASSERT_EQ(gates.size(), 2U);
  EXPECT_EQ(gates[0].state, "paused");
  EXPECT_EQ(gates[1].state, "breaker_open");
}

TEST_F(HeldBack, WhoResumesAQueueIsToldWhatElseHoldsIt) {
  const TargetRules rules;
  const auto nothing = [&] {
    const auto resumed = resume_queue(*store_, {"orders", "ann", ""}, rules).value();
    EXPECT_FALSE(resumed.ended.any()) << "it may be repeated";
    return resumed;
  };
  EXPECT_EQ(nothing().held_still, "");
  EXPECT_EQ(nothing().state, "flowing");
  change([](GateState& state, EpochMs at) { state.breaker = opened(at); });
  EXPECT_THAT(nothing().held_still, testing::StartsWith("queue orders: breaker open until "));
  EXPECT_THAT(nothing().held_still, HasSubstr("(20 of the last 100 deliveries failed)"));
  EXPECT_EQ(to_json(nothing())["state"], "breaker_open");
  EXPECT_EQ(to_json(nothing())["ended"], Json::array());
  ASSERT_TRUE(store_->pause({"orders", {}, "ann", ""}));
  EXPECT_EQ(to_json(resume_queue(*store_, {"orders", "ann", ""}, rules).value())["ended"], Json({"pause"}));
}

TEST_F(HeldBack, QueuesWithParkedTasksAloneAndAttachedOnesAreListed) {
  ASSERT_TRUE(store_->pause({"invoices", {}, "ann", ""}));
  NewTask parked;
  parked.task.id = {4711};
  parked.task.queue = "orders";
  parked.task.state = State::parked;
  parked.message = std::make_shared<Message>();
  ASSERT_TRUE(store_->insert({&parked, 1}, Fence{0, {}, true}));
  const AttachmentSighting seen[] = {{"orders", AttachmentState::detached, "", EpochMs{1}, false, true},
                                     {"mails", AttachmentState::attached, "", EpochMs{1}},
                                     {"gone", AttachmentState::gone, "", EpochMs{1}, false, true}};
  ASSERT_TRUE(store_->see_attachments(seen));
  std::string all;
  const auto queues = read_queues(*store_).value();
  for (const QueueGate& gate : queues) {
    EXPECT_EQ(to_json(*gate_from_json(to_json(gate))), to_json(gate));
    all += gate.queue + " " + gate.state + " " + std::to_string(gate.parked) + " " +
           (gate.attached ? (*gate.attached ? "yes" : "no") : "-") + "; ";
  }
  EXPECT_EQ(all, "invoices paused 0 -; mails flowing 0 yes; orders flowing 1 no; ");
}

TEST_F(HeldBack, AProbeEndsTheWaitOfAnOpenBreaker) {
  const TargetRules rules;
  change([](GateState& state, EpochMs at) { state.breaker = opened(at); });
  const auto probed = resume_queue(*store_, {"orders", "ann", "mended", true}, rules).value();
  EXPECT_EQ(to_json(probed)["ended"], Json({"breaker_wait"}));
  EXPECT_EQ(probed.state, "breaker_half_open");
  EXPECT_TRUE(resumed_from_json(to_json(probed)).value().probes);
  EXPECT_EQ(store_->events(1).value().front().detail, "by ann: mended");
  const auto again = resume_queue(*store_, {"orders", "ann", "", true}, rules).value();
  EXPECT_FALSE(again.probes) << "it may be repeated";
  EXPECT_EQ(store_->gate_states().value().size(), 1U);
  EXPECT_FALSE(resume_queue(*store_, {"invoices", "ann", "", true}, rules).value().probes);
  EXPECT_EQ(store_->gate_states().value().size(), 1U) << "no row for a queue without a breaker";
}

TEST(GateText, IsASentenceForEachGate) {
  QueueGate gate;
  gate.queue = "orders";
  gate.until = EpochMs{1'795'280'640'123};
  const auto text = [&](const std::string& state, const std::string& reason) {
    gate.state = state;
    gate.reason = reason;
    return state_text(gate) + " | " + gate_text(gate);
  };
  const std::string until = format_utc(*gate.until) + " UTC";
  EXPECT_EQ(text("outside_window", "window Mon-Fri 08:00-18:00 Europe/Berlin"),
            "outside window | queue orders is outside its window until " + until +
                " (Mon-Fri 08:00-18:00 Europe/Berlin)");
  EXPECT_EQ(
      text("breaker_open", "20 of the last 100 deliveries failed"),
      "breaker open | queue orders: breaker open until " + until + " (20 of the last 100 deliveries failed)");
  EXPECT_EQ(text("breaker_half_open", "a probe failed: x"),
            "breaker half-open | queue orders: breaker half-open, only probes go out (a probe failed: x)");
  EXPECT_EQ(text("rate_limited", "rate 200/s"),
            "rate limited | waits for the rate of queue orders (rate 200/s)");
  gate.by = "retry-after";
  EXPECT_EQ(text("paused", "task 17 asked for 1h"),
            "paused | queue orders is paused until " + until + " by retry-after (task 17 asked for 1h)");
  gate.by = "ann";
  gate.until.reset();
  EXPECT_EQ(text("paused", ""), "paused | queue orders is paused until it is resumed by ann");
}

}  // namespace
}  // namespace rung::api
