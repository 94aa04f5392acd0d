// What holds back a queue, as the API and the commands say it.
#include <nlohmann/json.hpp>

#include "src/api/api.h"
#include "src/api/queues/gates.h"
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
    const auto gate = api::holding_gate(database(), task);
    return gate ? gate->state : "";
  }
  // The answer to POST /v1/queues/{queue}/resume.
  api::Json resume(const std::string& queue, const std::string& body = "") {
    api::ContextParts parts;
    parts.store = [this] { return open_mysql_store(mysql_->options(), test_clock()); };
    parts.rules = rules();
    api::LocalApi api(std::move(parts), "ann", test_clock());
    return api::Json::parse(api.call("POST", "/v1/queues/" + queue + "/resume", body).body);
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
  EXPECT_TRUE(api::gates_in_force(database()).empty());
  ASSERT_TRUE(store_->pause({"invoices", {}, "ann", ""}));
  change("orders", [](GateState& state, EpochMs at) { state.breaker = opened(at); });
  const auto gates = api::gates_in_force(database());
  ASSERT_EQ(gates.size(), 2U);
  EXPECT_EQ(gates[0].state, "paused");
  EXPECT_EQ(gates[1].state, "breaker_open");
}

TEST_P(HeldBack, WhoResumesAQueueIsToldWhatElseHoldsIt) {
  EXPECT_EQ(resume("orders").at("held_still"), nullptr);
  EXPECT_EQ(resume("orders").at("state"), "flowing");
  change("orders", [](GateState& state, EpochMs at) { state.breaker = opened(at); });
  const api::Json nothing = resume("orders");
  EXPECT_THAT(nothing.at("held_still").get<std::string>(),
              testing::AllOf(testing::StartsWith("queue orders: breaker open until "),
                             HasSubstr("(20 of the last 100 deliveries failed, the last one with: ")));
  EXPECT_EQ(nothing.at("state"), "breaker_open");
  EXPECT_EQ(nothing.at("ended"), api::Json::array()) << "it may be repeated";
  ASSERT_TRUE(store_->pause({"orders", {}, "ann", ""}));
  EXPECT_EQ(resume("orders").at("ended"), api::Json({"pause"}));
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
  const auto queues = api::read_queues(database());
  for (const QueueGate& gate : queues) {
    all += gate.queue + " " + gate.state + " " + std::to_string(gate.parked) + " " +
           (gate.attached ? (*gate.attached ? "yes" : "no") : "-") + "; ";
  }
  EXPECT_EQ(all, "invoices paused 0 -; mails flowing 0 yes; orders flowing 1 no; ");
}

TEST_P(HeldBack, AProbeEndsTheWaitOfAnOpenBreaker) {
  change("orders", [](GateState& state, EpochMs at) { state.breaker = opened(at); });
  const api::Json probed = resume("orders", R"({"probe": true, "reason": "mended"})");
  EXPECT_EQ(probed.at("ended"), api::Json({"breaker_wait"}));
  EXPECT_EQ(probed.at("state"), "breaker_half_open");
  EXPECT_EQ(events(1).front().detail, "by ann: mended");
  const std::string probe = R"({"probe": true})";
  EXPECT_EQ(resume("orders", probe).at("ended"), api::Json::array()) << "it may be repeated";
  EXPECT_EQ(store_->gate_states().value().size(), 1U);
  EXPECT_EQ(resume("invoices", probe).at("ended"), api::Json::array());
  EXPECT_EQ(store_->gate_states().value().size(), 1U) << "no row for a queue without a breaker";
}

INSTANTIATE_TEST_SUITE_P(Stores, HeldBack, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
