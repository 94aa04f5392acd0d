// What holds back a queue, as the API and the commands say it.
#include <nlohmann/json.hpp>

#include "src/api/queues/gates.h"
#include "src/api/queues/pauses.h"
#include "tests/contract/store/gate_world.h"

namespace rung::test {
namespace {

using ::testing::HasSubstr;

class HeldBack : public GateWorld {
 protected:
  // What holds back a task of the queue that is due in `away`; "" = nothing.
  std::string held(Ms away, State state = State::scheduled) {
    Task task;
    task.queue = "orders";
    task.state = state;
    task.next_at = must(store_->now()) + away;
    const auto gate = must(api::holding_gate(database(), task));
    return gate ? gate->state : "";
  }
  static Breaker opened(EpochMs now) {
    Breaker breaker = open_breaker(now);
    breaker.until = now + kLong;
    return breaker;
  }
};

TEST_P(HeldBack, ByTheGateThatEndsAfterTheTaskIsDue) {
  EXPECT_EQ(held(Ms{0}), "");
  change("orders", [](GateState& state, EpochMs at) { state.outside = {at, at + kLong, "window"}; });
  EXPECT_EQ(held(-kLong), "outside_window");
  EXPECT_EQ(held(kLong / 2), "outside_window");
  EXPECT_EQ(held(kLong * 2), "") << "it is inside the window by then";
  EXPECT_EQ(held(-kLong, State::awaiting), "");
  change("orders", [](GateState& state, EpochMs at) { state.breaker = opened(at), state.outside.reset(); });
  EXPECT_EQ(held(Ms{0}), "breaker_open");
  EXPECT_EQ(held(kLong * 2), "");
  ASSERT_TRUE(store_->pause({"orders", {}, "ann", ""}));
  EXPECT_EQ(held(kLong * 2), "paused");
}

TEST_P(HeldBack, ByARateOrAHalfOpenBreakerOnlyWhenTheTaskIsDue) {
  change("orders", [](GateState& state, EpochMs at) { state.limited = {at, at + kLong, "rate 5/s"}; });
  EXPECT_EQ(held(Ms{0}), "rate_limited");
  EXPECT_EQ(held(kLong / 2), "");
  change("orders", [](GateState& state, EpochMs at) {
    state.breaker = opened(at);
    state.breaker.until = at;
  });
  EXPECT_EQ(held(Ms{0}), "breaker_half_open");
  EXPECT_EQ(held(kLong / 2), "");
}

TEST_P(HeldBack, EveryQueueThatIsHeldBackIsListed) {
  EXPECT_TRUE(api::gates_in_force(database()).value().empty());
  ASSERT_TRUE(store_->pause({"invoices", {}, "ann", ""}));
  change("orders", [](GateState& state, EpochMs at) { state.breaker = opened(at); });
  const auto gates = api::gates_in_force(database()).value();
  ASSERT_EQ(gates.size(), 2U);
  EXPECT_EQ(gates[0].state, "paused");
  EXPECT_EQ(gates[1].state, "breaker_open");
}

TEST_P(HeldBack, WhoResumesAQueueIsToldWhatElseHoldsIt) {
  const TargetRules rules;
  const auto nothing = [&] {
    const auto resumed = api::resume_queue(database(), {"orders", "ann", ""}, rules).value();
    EXPECT_FALSE(resumed.ended.any()) << "it may be repeated";
    return resumed;
  };
  EXPECT_EQ(nothing().held_still, "");
  EXPECT_EQ(nothing().state, "flowing");
  change("orders", [](GateState& state, EpochMs at) { state.breaker = opened(at); });
  EXPECT_THAT(nothing().held_still, testing::StartsWith("queue orders: breaker open until "));
  EXPECT_THAT(nothing().held_still, HasSubstr("(20 of the last 100 deliveries failed, the last one with: "));
  EXPECT_EQ(api::to_json(nothing())["state"], "breaker_open");
  EXPECT_EQ(api::to_json(nothing())["ended"], api::Json::array());
  ASSERT_TRUE(store_->pause({"orders", {}, "ann", ""}));
  EXPECT_EQ(api::to_json(api::resume_queue(database(), {"orders", "ann", ""}, rules).value())["ended"],
            api::Json({"pause"}));
}

TEST_P(HeldBack, QueuesWithParkedTasksAloneAndAttachedOnesAreListed) {
  ASSERT_TRUE(store_->pause({"invoices", {}, "ann", ""}));
  NewTask parked = task("orders");
  parked.task.state = State::parked;
  parked.task.next_at.reset();
  ASSERT_TRUE(store_->insert({&parked, 1}, Fence{0, {}, true}));
  const EpochMs now = must(store_->now());
  const AttachmentSighting seen[] = {{"orders", AttachmentState::detached, "", now, false, true},
                                     {"mails", AttachmentState::attached, "", now},
                                     {"gone", AttachmentState::gone, "", now, false, true}};
  ASSERT_TRUE(store_->see_attachments(seen));
  std::string all;
  const auto queues = api::read_queues(database()).value();
  for (const QueueGate& gate : queues) {
    all += gate.queue + " " + gate.state + " " + std::to_string(gate.parked) + " " +
           (gate.attached ? (*gate.attached ? "yes" : "no") : "-") + "; ";
  }
  EXPECT_EQ(all, "invoices paused 0 -; mails flowing 0 yes; orders flowing 1 no; ");
}

TEST_P(HeldBack, AProbeEndsTheWaitOfAnOpenBreaker) {
  const TargetRules rules;
  change("orders", [](GateState& state, EpochMs at) { state.breaker = opened(at); });
  const auto probed = api::resume_queue(database(), {"orders", "ann", "mended", true}, rules).value();
  EXPECT_EQ(api::to_json(probed)["ended"], api::Json({"breaker_wait"}));
  EXPECT_EQ(probed.state, "breaker_half_open");
  EXPECT_TRUE(probed.probes);
  EXPECT_EQ(events(1).front().detail, "by ann: mended");
  const auto again = api::resume_queue(database(), {"orders", "ann", "", true}, rules).value();
  EXPECT_FALSE(again.probes) << "it may be repeated";
  EXPECT_EQ(store_->gate_states().value().size(), 1U);
  EXPECT_FALSE(api::resume_queue(database(), {"invoices", "ann", "", true}, rules).value().probes);
  EXPECT_EQ(store_->gate_states().value().size(), 1U) << "no row for a queue without a breaker";
}

INSTANTIATE_TEST_SUITE_P(Stores, HeldBack, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
