// Silence is a success only for deliveries after which a failure could have arrived.
#include <gmock/gmock.h>

#include "src/bridge/upkeep/janitor.h"
#include "src/bridge/watch/attachments.h"
#include "tests/unit/bridge/flow_fixture.h"

namespace rung::bridge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// A delivery to orders fails without a report.
RuleBookPtr reporting_rules() {
  QueueRules reported;
  reported.silence = {Silence::Means::failure, Ms{600'000}};
  return book_of({Ms{1000}, Ms{2000}, Ms{5000}}, {{"orders", reported}});
}

// An instance that can look at the broker's attachments. A look takes `takes`.
struct Looking {
  explicit Looking(World& its_world, Flow::Options options = {})
      : world(its_world), flow(its_world, std::move(options)) {
    flow.attachments.ask_by([this] { ask(); });
  }
  void start(int shards = kShards) {
    flow.take_shards(shards);
    flow.janitor.start();
    ask();
    world.loop.run_for(takes * 2 + Ms{10});
  }
  // What is asked for while a look is under way is answered by the next one.
  void ask() {
    if (looking) {
      again = true;
      return;
    }
    looking = true;
    looked_at = world.clock->boot();
    answer.start(takes);
  }
  void found() {
    looking = false;
    ++looks;
    AttachmentLook look;
    look.asked_at = looked_at;
    using State = std::optional<AttachmentState>;
    for (const std::string& queue : flow.attachments.to_watch(configured)) {
      const State state = !answers                      ? State{}
                          : !flow.broker.exists(queue)  ? AttachmentState::gone
                          : wrong-- > 0                 ? AttachmentState::detached
                          : flow.broker.attached(queue) ? AttachmentState::attached
                                                        : AttachmentState::detached;
      look.queues.push_back({queue, state, "its dead letters go nowhere", "", ""});
      if (!answers || state == AttachmentState::gone || !flow.attachments.awaiting().contains(queue))
        continue;
      const auto depth = static_cast<std::int64_t>(flow.broker.depth(queue));
      look.queues.back().count = {{reads ? 0 : depth, consumers, published}};
    }
    if (answers) look.attached.emplace();
    flow.attachments.found(look, configured);
    if (std::exchange(again, false)) ask();
  }
  const Totals& totals() const { return flow.counts.totals; }

  World& world;
  Flow flow;
  io::Timer answer{world.loop, [this] { found(); }};
  std::vector<std::string> configured{"orders", "invoices"};
  bool answers = true, looking = false, again = false;
  bool reads = true;  // the consumers have taken all that was delivered
  int consumers = 1;
  std::optional<std::int64_t> published;
  int looks = 0, wrong = 0;
  Ms takes{20};
  BootMs looked_at{0};
};

class Silences : public testing::Test {
 protected:
  // Delivered now; silence for ten minutes is a success.
  TaskId deliver(const std::string& queue) {
    const TaskId id = world.insert(queue, world.now());
    EXPECT_TRUE(world.loop.run_until([&] { return world.row(id).state == State::awaiting; }));
    return id;
  }
  void pass(Ms time) { world.loop.run_for(time); }
  // Detaches it, or attaches it again, and lets the instance notice.
  void attach(Looking& at, bool yes) {
    at.flow.broker.attach("orders", yes);
    for (int i = 0; i < 2; ++i) {
      at.ask();
      pass(at.takes + Ms{5});
    }
  }
  bool is_held(TaskId id) { return is_silence_held(world.row(id)); }
  bool is_presumed(TaskId id) {
    const Task task = world.row(id);
    return task.state == State::succeeded && task.finished_by == FinishedBy::presumed;
  }
  std::vector<std::string> events() {
    std::vector<std::string> kinds;
    for (const SystemEvent& event : std::vector<SystemEvent>(world.eyes->events(100)))
      kinds.push_back(event.kind);
    std::ranges::reverse(kinds);
    return kinds;
  }
  static constexpr Ms kOver{605'000};

  World world;
};

// S1: 3,000 under way, detached, all rejected: dropped by the broker, and they were taken for successes.
TEST_F(Silences, FailuresOfADetachedQueueAreNoSuccesses) {
  Looking a(world);
  a.start();
  std::vector<TaskId> ids;
  for (int i = 0; i < 300; ++i) ids.push_back(world.insert("orders", world.now()));
  ASSERT_TRUE(world.loop.run_until([&] { return a.flow.broker.depth("orders") == 300; }));
  a.flow.broker.attach("orders", false);
  while (a.flow.broker.reject("orders")) {
  }
  const int before = a.looks;
  pass(kOver);
  for (const TaskId id : ids) EXPECT_TRUE(is_held(id));
  EXPECT_LT(a.looks - before, 10) << "one look a batch, not one a task";
  EXPECT_EQ(a.totals().silences_held, 300);
  EXPECT_THAT(world.eyes->history(ids[0]).at(0).attempt.error,
              HasSubstr("queue orders is not attached (its dead letters go nowhere) since"));
  // Attached again: their failures are lost all the same.
  attach(a, true);
  pass(kOver * 3);
  for (const TaskId id : ids) EXPECT_TRUE(is_held(id));
  EXPECT_EQ(events(), (std::vector<std::string>{"silence_held", "silence_resumed"}));
  // A person decides.
  EXPECT_EQ(a.flow.say({ids[0], event::Finish{false, "it failed"}, ByHand{"ann", {}}})->task.level, 2);
  EXPECT_EQ(a.flow.say({ids[1], event::Redrive{}, ByHand{"ann", {}}})->task.state, State::scheduled);
  EXPECT_EQ(a.flow.say({ids[2], event::Finish{true, ""}, ByHand{"ann", {}}})->task.state, State::succeeded);
  // What is delivered from now on counts as ever.
  const TaskId later = deliver("orders");
  pass(kOver);
  EXPECT_TRUE(is_presumed(later));
}

TEST_F(Silences, ADetachmentInTheMiddleOfTheSilenceIsNotForgottenAtItsEnd) {
  Looking a(world);
  a.start();
  const TaskId before = deliver("orders");
  pass(Ms{60'000});
  attach(a, false);
  const TaskId within = deliver("orders");
  pass(Ms{60'000});
  attach(a, true);
  const TaskId after = deliver("orders");
  pass(kOver);
  EXPECT_TRUE(is_held(before));
  EXPECT_TRUE(is_held(within));
  EXPECT_TRUE(is_presumed(after));
  EXPECT_THAT(world.eyes->history(before).at(0).attempt.error, HasSubstr("was not attached until"));
}

TEST_F(Silences, AQueueThatIsGoneIsNotAttachedEither) {
  Looking a(world);
  a.start();
  const TaskId id = deliver("orders");
  a.flow.broker.remove("orders");
  pass(kOver);
  EXPECT_TRUE(is_held(id));
}

// Delays, and consumers that publish their failures themselves.
TEST_F(Silences, AQueueThatHasNeverBeenAttachedNeedsNoAttachment) {
  Looking a(world);
  a.flow.broker.attach("orders", false);
  a.start();
  const TaskId id = deliver("orders");
  pass(kOver);
  EXPECT_TRUE(is_presumed(id));
  EXPECT_THAT(events(), IsEmpty());
}

// Another instance delivered it and has ended. Nothing but its row tells that the queue has to be watched.
TEST_F(Silences, AfterATakeoverTheQueuesOfWhatAwaitsAreWatched) {
  TaskId id;
  {
    Looking before(world);
    before.configured = {};
    before.start();
    id = deliver("orders");
  }
  Looking b(world, {.name = "b"});
  b.configured = {};
  b.start();
  attach(b, false);
  attach(b, true);
  pass(kOver);
  EXPECT_TRUE(is_held(id));
}

// The first failure arrived, and the queue was detached before anybody looked.
TEST_F(Silences, ADeadLetterTellsThatTheQueueWasAttached) {
  Looking a(world);
  a.configured = {};
  a.takes = Ms{5000};
  a.flow.take_shards();
  a.flow.janitor.start();
  ASSERT_TRUE(a.flow.broker.put("orders", Message{{}, {}, "body"}));
  ASSERT_TRUE(a.flow.broker.reject("orders"));
  ASSERT_TRUE(world.loop.run_until([&] { return world.rows().size() == 1; }));
  a.flow.broker.attach("orders", false);
  const TaskId id = world.rows().at(0).task.id;
  ASSERT_TRUE(world.loop.run_until([&] { return world.row(id).state == State::awaiting; }));
  pass(kOver + a.takes * 3);
  EXPECT_TRUE(is_held(id));
}

// The sidecar looked at the broker while it still migrated the schema, and the queue was detached before it
// had joined.
TEST_F(Silences, AQueueThatWasAttachedBeforeTheSidecarJoinedWasAttached) {
  Looking a(world);
  a.ask();
  pass(a.takes * 2);
  attach(a, false);
  a.start();
  const TaskId id = deliver("orders");
  pass(kOver);
  EXPECT_TRUE(is_held(id));
  EXPECT_THAT(events(), ElementsAre("silence_held"));
}

TEST_F(Silences, WhatCouldNotBeRecordedIsRecordedLater) {
  Looking a(world);
  a.configured = {"orders"};
  a.flow.take_shards();
  world.db->fail_next(1'000'000, Error::Kind::refused);
  a.ask();
  pass(a.takes * 2);
  Task failed;
  failed.queue = "invoices";
  failed.last_error = "dead-lettered: rejected";
  a.flow.attachments.failed(failed);
  pass(a.takes);
  world.db->fail_next(0);
  EXPECT_THAT(world.eyes->attachments({}), IsEmpty());
  a.ask();
  pass(a.takes * 2);
  a.flow.attachments.failed(failed);
  pass(a.takes);
  std::vector<std::string> queues;
  for (const auto& [queue, record] : AttachmentRecords(world.eyes->attachments({}))) queues.push_back(queue);
  EXPECT_THAT(queues, UnorderedElementsAre("orders", "invoices"));
}

// Between its two requests a policy is replaced: the look sees neither.
TEST_F(Silences, ASingleLookDoesNotDetach) {
  Looking a(world);
  a.start();
  const TaskId id = deliver("orders");
  pass(Ms{599'000});
  a.wrong = 1;
  pass(kOver - Ms{599'000});
  EXPECT_TRUE(is_presumed(id));
  EXPECT_THAT(events(), IsEmpty());
}

TEST_F(Silences, WithoutAnAnswerTheLastKnownStateCountsAndASuccessWaits) {
  Looking a(world);
  a.start();
  const TaskId attached = deliver("orders");
  attach(a, true);
  a.answers = false;
  pass(kOver);
  EXPECT_EQ(world.row(attached).state, State::awaiting) << "it was attached, and an answer may come";
  EXPECT_FALSE(is_held(attached));
  pass(kUnverifiedSilence + Ms{15'000});
  EXPECT_TRUE(is_presumed(attached));
  EXPECT_EQ(a.totals().silences_unverified, 1);

  a.answers = true;
  attach(a, false);
  const TaskId detached = deliver("orders");
  a.answers = false;
  pass(kOver);
  EXPECT_TRUE(is_held(detached));
}

// Two instances look while the queue is being detached; what the other saw is stored as the later state.
TEST_F(Silences, ALookThatAnotherInstanceOvertookIsWrittenByTheNextOne) {
  Looking a(world);
  a.start();
  a.flow.broker.attach("orders", false);
  a.ask();
  pass(a.takes + Ms{5});  // the second look, which decides, has begun
  for (const AttachmentState state : {AttachmentState::detached, AttachmentState::attached})
    world.eyes->see_attachments(
        std::vector<AttachmentSighting>{{"orders", state, "as the other saw it", world.now()}});
  pass(a.takes);
  const auto stored = [&] { return world.eyes->attachments({}).at("orders").state; };
  ASSERT_EQ(stored(), AttachmentState::attached);
  a.ask();
  pass(a.takes + Ms{5});
  EXPECT_EQ(stored(), AttachmentState::detached);
}

TEST_F(Silences, WhereNobodyCanLookSilenceIsASuccessAndCounted) {
  Flow flow(world);
  flow.take_shards();
  flow.janitor.start();
  ASSERT_TRUE(flow.broker.put("orders", Message{{}, {}, "body"}));
  ASSERT_TRUE(flow.broker.reject("orders"));
  ASSERT_TRUE(world.loop.run_until([&] { return world.rows().size() == 1; }));
  const TaskId id = world.rows().at(0).task.id;
  pass(kOver + Ms{2000});
  EXPECT_TRUE(is_presumed(id));
  EXPECT_EQ(flow.counts.totals.silences_unverified, 1);
}

TEST_F(Silences, WhereNobodyEverCountedTheQueueItIsASuccessAndCounted) {
  Looking a(world);
  a.answers = false;
  a.start();
  const TaskId id = deliver("orders");
  pass(kOver);
  EXPECT_EQ(world.row(id).state, State::awaiting) << "an answer may come";
  pass(kUnverifiedSilence + Ms{15'000});
  EXPECT_TRUE(is_presumed(id));
  EXPECT_EQ(a.totals().silences_unverified, 1);
}

// One has access to the management API, the other has not; and one is started again.
TEST_F(Silences, AllInstancesConcludeTheSame) {
  Looking a(world, {.name = "a"});
  a.start();
  const TaskId id = deliver("orders");
  attach(a, false);
  a.flow.janitor.stop();
  a.flow.shards.leave([] {});
  Flow b(world, {.name = "b"});
  b.take_shards();
  b.janitor.start();
  pass(kOver);
  EXPECT_TRUE(is_held(id));
}

TEST_F(Silences, WhereSilenceMeansFailureTheQueueNeedNotBeAttached) {
  world.rules = reporting_rules();
  Looking a(world);
  a.start();
  attach(a, false);
  const TaskId id = deliver("orders");
  const TaskId own = world.insert("orders", world.now(), 5, [](Task& task) {
    task.silence = Silence{Silence::Means::success, Ms{600'000}};
  });
  const int looks = a.looks;
  pass(kOver);
  EXPECT_EQ(world.row(id).level, 2);
  EXPECT_TRUE(is_held(own)) << "its own silence means success";
  EXPECT_LT(a.looks - looks, 6);
}

TEST_F(Silences, AQueueWhoseAttachmentIsIgnored) {
  QueueRules ignored;
  ignored.needs_attachment = false;
  world.rules = book_of({Ms{1000}, Ms{2000}, Ms{5000}}, {{"orders", ignored}});
  Looking a(world);
  a.start();
  const TaskId id = deliver("orders");
  attach(a, false);
  pass(kOver);
  EXPECT_TRUE(is_presumed(id));
}

// The config names the queue no more, or says something else about it: that holds for what is delivered then.
TEST_F(Silences, WhatItMeantAtTheConfirmHolds) {
  const RuleBookPtr without = world.rules;
  world.rules = reporting_rules();
  Looking a(world);
  a.start();
  const TaskId before = deliver("orders");
  world.rules = without;
  const TaskId later = deliver("orders");
  pass(kOver);
  EXPECT_EQ(world.row(before).level, 2);
  EXPECT_TRUE(is_presumed(later));
}

// C2: 300 lay unread, the canary had "succeeded", and when the consumer ran all of them failed.
TEST_F(Silences, WhatNobodyHasReadIsNoSuccess) {
  Looking a(world);
  a.start();
  a.reads = false;
  a.consumers = 0;
  const TaskId id = deliver("orders");
  pass(kOver * 20);
  EXPECT_EQ(world.row(id).state, State::awaiting);
  EXPECT_FALSE(is_held(id)) << "it ends by itself";
  const auto known = world.eyes->attachments({}).at("orders").reading;
  ASSERT_TRUE(known);
  EXPECT_EQ(unread_because("orders", *known), "queue orders has no consumer, and 1 message waits in it");
  EXPECT_EQ(world.eyes->history(id).at(0).attempt.error,
            "unread so far: queue orders has no consumer, and 1 message waits in it");
  // A consumer reads it: its silence begins now.
  a.reads = true;
  a.consumers = 1;
  a.ask();
  pass(kOver - Ms{10'000});
  EXPECT_EQ(world.row(id).state, State::awaiting);
  pass(kOver);
  EXPECT_TRUE(is_presumed(id));
  EXPECT_EQ(a.totals().silences_unverified, 0);
}

// Such consumers are none to the broker.
TEST_F(Silences, AnEmptyQueueWithoutConsumersHasBeenRead) {
  Looking a(world);
  a.start();
  a.consumers = 0;
  const TaskId id = deliver("orders");
  pass(kOver);
  EXPECT_TRUE(is_presumed(id));
}

// The queue is never empty: it is read in order.
class Backlog : public Silences {
 protected:
  // To a queue in which 50 others wait, and whose publishes are counted.
  TaskId deliver_behind_50(Looking& a) {
    a.start();
    a.reads = false;
    a.published = 1000;
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(a.flow.broker.put("orders", Message{{}, {}, "other"}));
    return deliver("orders");
  }
};

TEST_F(Backlog, TheCountersTellWhatHasBeenRead) {
  Looking a(world);
  const TaskId id = deliver_behind_50(a);
  const auto looks = [&](int minutes, int more) {
    for (int i = 0; i < minutes; ++i) {
      *a.published += more;
      a.ask();
      pass(kAMinute);
    }
  };
  looks(12, 1);
  EXPECT_EQ(world.row(id).state, State::awaiting) << "51 wait, and 12 came since";
  looks(12, 40);
  EXPECT_TRUE(is_presumed(id));
  EXPECT_EQ(a.totals().silences_unverified, 0);
}

// A message waits for eleven minutes in the queue, and its silence lasts ten.
TEST_F(Backlog, ThatIsLongerThanTheSilenceItEndsAllTheSame) {
  Looking a(world);
  const TaskId id = deliver_behind_50(a);
  for (int i = 0; i < 60; ++i) {
    *a.published += 5;
    a.ask();
    pass(kAMinute);
  }
  EXPECT_TRUE(is_presumed(id));
}

TEST_F(Silences, InABacklogWithoutCountersAConsumerHasReadItInTheEnd) {
  Looking a(world);
  a.start();
  a.reads = false;
  const TaskId id = deliver("orders");
  pass(kOver);
  EXPECT_EQ(world.row(id).state, State::awaiting);
  pass(kOver);
  EXPECT_TRUE(is_presumed(id));
  EXPECT_EQ(a.totals().silences_unverified, 1);
}

// R3: beyond 10,000 such tasks, some stayed awaiting for ever.
TEST_F(Silences, TasksWhoseOwnSilenceMeansSuccessNeedNoMemory) {
  world.rules = reporting_rules();
  Looking a(world);
  a.start();
  std::vector<TaskId> ids;
  for (int i = 0; i < 10'100; ++i)
    ids.push_back(world.insert("orders", world.now() + Ms{1000}, i % kShards, [](Task& task) {
      task.state = State::awaiting;
      task.attempt = 1;
      task.said = task.silence = Silence{Silence::Means::success, Ms{1000}};
    }));
  pass(Ms{20'000});
  const auto open = std::ranges::count_if(ids, [&](TaskId id) { return !is_presumed(id); });
  EXPECT_EQ(open, 0);
}

// Thousands are held: the others' silence still ends, and so does that of another queue.
TEST_F(Silences, HeldTasksAreNotLookedAtAgainAndKeepNobodyBack) {
  Looking a(world);
  a.start();
  attach(a, false);
  for (int i = 0; i < 1500; ++i)
    world.insert("orders", world.now() + Ms{1000}, 5, [](Task& task) {
      task.state = State::awaiting;
      task.attempt = 1;
    });
  const TaskId other = world.insert("invoices", world.now() + Ms{2000}, 5, [](Task& task) {
    task.state = State::awaiting;
    task.attempt = 1;
  });
  pass(Ms{10'000});
  EXPECT_TRUE(is_presumed(other));
  EXPECT_EQ(a.totals().silences_held, 1500);
  const int looks = a.looks;
  pass(Ms{60'000});
  EXPECT_EQ(a.looks, looks);
}

// ---- When a queue that is not attached is a problem, and what is recorded.

using Found = AttachmentState;

class AttachmentsTest : public ::testing::Test {
 protected:
  // By two looks: the second one decides.
  void found(const std::string& queue, std::optional<Found> state) {
    for (int i = 0; i < 2; ++i)
      attachments.found({{{queue, state, "detail", "rung attach " + queue, "rabbitmqctl"}}, {}, {}},
                        {"orders"});
  }
  bool problem() const { return flow.health.has("detached"); }
  std::vector<std::string> events() const {
    std::vector<std::string> out;
    for (const SystemEvent& event : flow.events) out.push_back(event.kind + " " + event.subject);
    return out;
  }

  World world;
  Flow flow{world};
  Attachments& attachments = flow.attachments;
};

TEST_F(AttachmentsTest, AConfiguredQueueThatIsDetached) {
  found("orders", Found::attached);
  EXPECT_FALSE(problem());
  found("orders", Found::detached);
  ASSERT_TRUE(problem());
  EXPECT_THAT(flow.health.problems()[0].detail, HasSubstr("rung attach orders"));
  EXPECT_FALSE(flow.health.problems()[0].not_ready);
  EXPECT_THAT(attachments.configured(), ElementsAre(std::pair<std::string, bool>("orders", false)));
  found("orders", Found::detached);
  found("orders", Found::attached);
  EXPECT_FALSE(problem());
  EXPECT_THAT(events(), ElementsAre("queue_detached orders", "queue_attached orders"));
}

TEST_F(AttachmentsTest, AConfiguredQueueThatNeverWas) {
  found("orders", Found::detached);
  EXPECT_TRUE(problem());
  // Its consumer publishes failures by itself: no attachment is needed.
  attachments.seen("orders");
  found("orders", Found::detached);
  EXPECT_FALSE(problem());
  EXPECT_THAT(events(), ElementsAre());
}

// It may be a dead-letter queue, which needs no attachment.
TEST_F(AttachmentsTest, AQueueThatMatchesAPattern) {
  const auto look = [&](Found state) {
    AttachmentLook seen;
    seen.queues = {{"orders.eu", state, "detail", "rung attach orders.eu", "rabbitmqctl"}};
    seen.matched = {"orders.eu"};
    for (int i = 0; i < 2; ++i) attachments.found(seen, {});
  };
  look(Found::detached);
  EXPECT_FALSE(problem());
  EXPECT_THAT(attachments.configured(), ElementsAre(std::pair<std::string, bool>("orders.eu", false)));
  look(Found::attached);
  EXPECT_THAT(attachments.configured(), ElementsAre(std::pair<std::string, bool>("orders.eu", true)));
  look(Found::detached);
  EXPECT_TRUE(problem()) << "it was attached";
}

TEST_F(AttachmentsTest, AQueueThatTheConfigDoesNotName) {
  attachments.seen("other");
  EXPECT_THAT(attachments.to_watch({"orders"}), ElementsAre("orders", "other"));
  found("other", Found::detached);
  EXPECT_FALSE(problem());
  found("other", Found::attached);
  found("other", Found::detached);
  EXPECT_TRUE(problem());
  world.loop.run_for(Attachments::kRemember + Ms{1000});
  found("other", Found::detached);
  EXPECT_FALSE(problem());
  EXPECT_THAT(attachments.configured(), ElementsAre());
}

TEST_F(AttachmentsTest, AQueueThatIsUnknownHidesNoOthers) {
  const auto look = [&](std::optional<Found> orders, std::optional<Found> invoices) {
    AttachmentLook looked{{{"orders", orders, "", "rung attach orders", ""},
                           {"invoices", invoices, "", "rung attach invoices", ""}},
                          {},
                          BootMs{1}};
    for (int i = 0; i < 2; ++i) attachments.found(looked, {"orders", "invoices"});
  };
  look(std::nullopt, Found::detached);
  EXPECT_TRUE(problem());
  look(Found::detached, Found::attached);
  look(std::nullopt, Found::attached);
  EXPECT_TRUE(problem()) << "orders is as it was last seen";
  look(Found::attached, std::nullopt);
  EXPECT_FALSE(problem());
}

TEST_F(AttachmentsTest, AQueueThatIsGoneIsNoProblem) {
  found("orders", Found::gone);
  EXPECT_FALSE(problem());
  found("orders", Found::attached);
  found("orders", Found::gone);
  EXPECT_FALSE(problem());
}

TEST_F(AttachmentsTest, SeenQueuesAreBounded) {
  for (std::size_t i = 0; i < Attachments::kMostSeen + 10; ++i) attachments.seen("q" + std::to_string(i));
  EXPECT_EQ(attachments.to_watch({}).size(), Attachments::kMostSeen);
}

}  // namespace
}  // namespace rung::bridge
