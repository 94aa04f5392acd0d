// Pauses by hand: what is kept, recorded and shown.
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/api/api.h"
#include "src/api/queues/queues.h"
#include "tests/contract/store/gate_world.h"
#include "tests/support/clock.h"

namespace rung::test {
namespace {

using nlohmann::json;

class PauseContract : public StoreContract {
 protected:
  static constexpr Ms kHour{3'600'000};

  Pause pause(const std::string& queue, std::optional<EpochMs> until = {}, const std::string& reason = "") {
    return store_->pause({queue, until, "ann@desk (test)", reason});
  }
  std::optional<Pause> latest(const std::string& queue) {
    for (const Pause& one : store_->pauses()) {
      if (one.queue == queue) return one;
    }
    return std::nullopt;
  }
  std::vector<AuditRow> audit() { return store_->audit(TaskId{0}); }
  TaskId scheduled(const std::string& queue, EpochMs due, const std::string& exchange = "") {
    NewTask n = task(queue);
    n.task.exchange = exchange;
    n.task.next_at = due;
    return insert(n);
  }
};

TEST_P(PauseContract, APauseIsKeptUntilItIsResumed) {
  const EpochMs before = db_now();
  const Pause made = pause("orders", {}, "the shop is down");
  EXPECT_GE(made.since, before);
  EXPECT_FALSE(made.over);
  auto other = open();
  const auto read = other->pauses();
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0], made);
  EXPECT_EQ(read[0].reason, "the shop is down");
  EXPECT_EQ(read[0].who, "ann@desk (test)");
  EXPECT_FALSE(read[0].until);

  const auto ended = other->resume("orders", "bob", "").pause;
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
  EXPECT_FALSE(store_->resume("orders", "bob", "").any());
  pause("orders");
  EXPECT_FALSE(store_->resume("orders ", "bob", "").any()) << "a blank makes it another queue";
  EXPECT_TRUE(store_->resume("orders", "bob", "").any());
  EXPECT_FALSE(store_->resume("orders", "bob", "").any());
  EXPECT_EQ(audit().size(), 2U);
}

TEST_P(PauseContract, APauseEndsByItself) {
  const EpochMs until = db_now() + Ms{50};
  pause("orders", until);
  EXPECT_EQ(latest("orders")->until, until);
  wait_until([&] { return latest("orders")->over; });
  EXPECT_GE(db_now(), until);
  EXPECT_FALSE(store_->resume("orders", "bob", "").any());
}

TEST_P(PauseContract, APauseInForceIsChangedAndKeepsItsBeginning) {
  const Pause first = pause("orders", {}, "down");
  const EpochMs until = db_now() + kHour;
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
  store_->resume("orders", "bob", "");
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
  EXPECT_EQ(store_->pauses().size(), 3U);
  EXPECT_TRUE(store_->resume("orders ", "bob", "").any());
  EXPECT_FALSE(latest("orders")->over);
  EXPECT_TRUE(latest("orders ")->over);
}

TEST_P(PauseContract, WhoPausedAndResumedIsInTheAuditAndInTheEvents) {
  const EpochMs until = db_now() + kHour;
  pause("orders", until, "deploy");
  store_->resume("orders", "bob", "");
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
  const EpochMs due = db_now() + kHour;
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

// The order of gates is in SQL, too: it is compared with gate_in_force() for all gates that are there, have
// ended, or are not confirmed.
TEST_P(ShownPauses, TheViewShowsWhatIsInForce) {
  enum class Is { absent, in_force, over };
  constexpr std::array kAll{Is::absent, Is::in_force, Is::over};
  const EpochMs now = db_now();
  const auto ends = [&](Is is) { return is == Is::over ? now - kHour : now + kHour; };
  std::map<std::string, GateState> states;
  for (const Is pause : kAll) {
    for (int i = 0; i < 3 * 3 * 3 * 3 * 2; ++i) {
      const auto digit = [&](int place) { return kAll[static_cast<std::size_t>(i / place % 3)]; };
      const std::string queue = std::to_string(static_cast<int>(pause)) + "-" + std::to_string(i);
      if (pause != Is::absent) store_->pause({queue, ends(pause), "ann", "by hand"});
      GateState& state = states[queue];
      const auto hold = [&](Is is, const char* reason) {
        return is == Is::absent ? std::nullopt
                                : std::optional(GateState::Hold{now - kHour, ends(is), reason});
      };
      state.outside = hold(digit(1), "outside");
      state.retry_after = hold(digit(3), "retry-after");
      state.limited = hold(digit(9), "limited");
      if (digit(27) != Is::absent) {
        state.breaker = open_breaker(now - kHour);
        state.breaker.until = ends(digit(27));
      }
      state.seen_at = i < 81 ? now : now - Ms{61'000};
    }
  }
  states["half open"].breaker = open_breaker(now);
  states["half open"].breaker.state = Breaker::State::half_open;
  states["half open"].breaker.until.reset();
  states["closed again"].breaker.since = now;
  for (const char* queue : {"half open", "closed again"}) states[queue].seen_at = now;
  GateBatch batch;
  for (const auto& [queue, state] : states) batch.queues.push_back(queue);
  batch.change = [&](GateState& state, EpochMs) {
    const std::string queue = std::exchange(state, states.at(state.queue)).queue;
    state.queue = queue;
    return std::vector<SystemEvent>{};
  };
  store_->change_gates(batch);
  std::map<std::string, Pause> pauses;
  for (const Pause& pause : store_->pauses()) pauses[pause.queue] = pause;
  std::map<std::string, QueueGate> shown;
  for (const QueueGate& gate : shown_queues(*mysql_)) shown[gate.queue] = gate;
  for (const GateState& state : store_->gate_states()) {
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

TEST_P(PauseContract, DueTasksAreFoundWithoutThoseOfPausedQueues) {
  const EpochMs due = db_now() - Ms{1000};
  for (int i = 0; i < 30; ++i) scheduled("orders", due);
  const TaskId other = scheduled("orders ", due + Ms{1});
  const TaskId invoice = scheduled("invoices", due + Ms{2});  // later: both may be in one shard
  const std::vector<std::string> without{"orders"};
  for (const int per_shard : {1, 100}) {
    const auto found =
        store_->due(State::scheduled, all_shards(), std::nullopt, db_now(), per_shard, without);
    std::set<TaskId> ids;
    for (const DueEntry& entry : found) ids.insert(entry.id);
    const std::set<TaskId> expected = per_shard == 1 && get(other).shard == get(invoice).shard
                                          ? std::set<TaskId>{other}
                                          : std::set{other, invoice};
    EXPECT_EQ(ids, expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Stores, ShownPauses, testing::Values("mysql"));
INSTANTIATE_TEST_SUITE_P(Stores, PauseContract, testing::Values("memory", "mysql"),
                         [](const auto& kind) { return kind.param; });

// ---- What holds back a queue, as the API and the commands say it.

using ::testing::HasSubstr;

class HeldBack : public GateWorld {
 protected:
  // What holds back a task of the queue that is due in `away`; "" = nothing.
  std::string held(Ms away, State state = State::scheduled) {
    Task task;
    task.queue = "orders";
    task.state = state;
    task.next_at = db_now() + away;
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
  store_->pause({"orders", {}, "ann", ""});
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

TEST_P(HeldBack, WhoResumesAQueueIsToldWhatElseHoldsIt) {
  EXPECT_EQ(resume("orders").at("held_by"), nullptr);
  EXPECT_EQ(resume("orders").at("state"), "flowing");
  change("orders", [](GateState& state, EpochMs at) { state.breaker = opened(at); });
  const api::Json nothing = resume("orders");
  EXPECT_THAT(nothing.at("held_by").get<std::string>(),
              testing::AllOf(testing::StartsWith("queue orders: breaker open until "),
                             HasSubstr("(20 of the last 100 deliveries failed, the last one with: ")));
  EXPECT_EQ(nothing.at("state"), "breaker_open");
  EXPECT_EQ(nothing.at("ended"), api::Json::array()) << "it may be repeated";
  store_->pause({"orders", {}, "ann", ""});
  EXPECT_EQ(resume("orders").at("ended"), api::Json({"pause"}));
}

TEST_P(HeldBack, QueuesWithParkedTasksAloneAndAttachedOnesAreListed) {
  store_->pause({"invoices", {}, "ann", ""});
  NewTask parked = task("orders");
  parked.task.state = State::parked;
  parked.task.next_at.reset();
  store_->insert({&parked, 1}, Fence{0, {}, true});
  const EpochMs now = db_now();
  const AttachmentSighting seen[] = {{"orders", AttachmentState::detached, "", now, false, true},
                                     {"mails", AttachmentState::attached, "", now},
                                     {"gone", AttachmentState::gone, "", now, false, true}};
  store_->see_attachments(seen);
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
  EXPECT_EQ(store_->gate_states().size(), 1U);
  EXPECT_EQ(resume("invoices", probe).at("ended"), api::Json::array());
  EXPECT_EQ(store_->gate_states().size(), 1U) << "no row for a queue without a breaker";
}

INSTANTIATE_TEST_SUITE_P(Stores, HeldBack, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
