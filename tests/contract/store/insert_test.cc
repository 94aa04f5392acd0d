#include <map>

#include "src/core/message/identity.h"
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

using How = Inserted::How;

TEST_P(StoreContract, EveryFieldOfATaskComesBack) {
  NewTask n = task();
  Task& t = n.task;
  t.shard = 63;
  t.kind = Kind::delay;
  t.next_at = EpochMs{1'789'000'000'123};
  t.attempt = 3;
  t.level = 4;
  t.levels = 9;
  t.max_attempts = 5;
  t.ladder = "webhook";
  t.ladder_pinned = true;
  t.epoch = 18'000'000'000'000'000'000U;
  t.node = fence().node;
  t.queue = "it's \"odd\"\\ \xF0\x9F\x90\x87; DROP TABLE x -- \n\t`:rows`";
  t.exchange = "e:x%_?";
  t.routing_key = std::string("a\0b", 3);
  t.tag = "order.created";
  t.message_id = "m-1 ";
  t.first_failed_at = EpochMs{1'788'999'999'999};
  t.created_at = EpochMs{1'789'000'000'001};
  t.finished_at = EpochMs{4'102'444'800'000};
  t.finished_by = FinishedBy::presumed;
  t.last_error = std::string(kErrorBytes - 4, 'x') + "\xF0\x9F\x98\x80";
  t.error_type = "java.lang.Error";
  t.body_bytes = 5'000'000'000;
  t.digest = message_digest(*n.message);
  t.parent = {4711};
  const auto inserted = store_->insert(std::span(&n, 1), fence());
  ASSERT_EQ(inserted.size(), 1U);
  EXPECT_EQ(inserted[0].how, How::inserted);
  EXPECT_EQ(inserted[0].id, t.id);
  const auto row = store_->find(t.id);
  ASSERT_TRUE(row);
  EXPECT_TRUE(row->task == t);
  EXPECT_EQ(row->task.queue, t.queue);
  EXPECT_EQ(row->task.last_error.size(), t.last_error.size());
  EXPECT_EQ(row->node, "a");
}

TEST_P(StoreContract, TimesAreExactToTheMillisecond) {
  std::vector<NewTask> tasks;
  for (int ms = 0; ms < 1000; ++ms) {
    NewTask n = task();
    n.task.state = State::cancelled;
    n.task.next_at = EpochMs{1'792'000'000'000 + ms * 86'399'999LL};
    n.task.finished_at = EpochMs{static_cast<std::int64_t>(ms)};
    tasks.push_back(std::move(n));
  }
  store_->insert(tasks, fence());
  for (const NewTask& n : tasks) {
    const Task t = get(n.task.id);
    ASSERT_EQ(t.next_at, n.task.next_at);
    ASSERT_EQ(t.finished_at, n.task.finished_at);
  }
}

TEST_P(StoreContract, ATimeThatNoColumnHoldsStopsNothing) {
  NewTask n = task();
  n.task.first_failed_at = EpochMs{std::int64_t{1} << 60U};
  insert(n);
}

TEST_P(StoreContract, MessagesComeBackToTheByte) {
  std::string every;
  for (int i = 0; i < 256 * 5; ++i) every += static_cast<char>(i);
  std::string large(1 << 20, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 2654435761U >> 13U);
  std::vector<NewTask> tasks;
  for (const std::string& body :
       {std::string(), every, large, std::string(300'000, '\''), std::string("\0", 1)}) {
    NewTask n = task("orders", body);
    Message m = *n.message;
    m.properties.content_type = "text/plain; x=\"\\'\"";
    m.properties.message_id = std::string("\xFF\0", 2);
    m.properties.priority = 9;
    if (!body.empty())
      m.headers = Table{{"k", std::string("\x80\0'", 3)}, {"n", std::int64_t{-5}}, {"t", Table{}}};
    n.message = std::make_shared<const Message>(std::move(m));
    n.origin_json = "{\"x\":\"\xF0\x9F\x90\x87\\\\ '\"}";
    tasks.push_back(std::move(n));
  }
  store_->insert(tasks, fence());
  std::vector<TaskId> ids;
  for (const auto& n : tasks) ids.push_back(n.task.id);
  ids.push_back(TaskId{12345});  // no such task
  auto messages = store_->messages(ids);
  ASSERT_EQ(messages.size(), tasks.size());
  for (const auto& [id, message, broken] : messages) {
    EXPECT_EQ(broken, "");
    const auto it =
        std::find_if(tasks.begin(), tasks.end(), [&](const NewTask& n) { return n.task.id == id; });
    ASSERT_NE(it, tasks.end());
    EXPECT_TRUE(*message == *it->message) << "body of " << it->message->body.size();
    const auto known = store_->known(std::vector{id, TaskId{12345}});
    ASSERT_EQ(known.size(), 1U);
    EXPECT_EQ(known[0].row.task.id, id);
    EXPECT_EQ(known[0].origin, it->origin_json);
  }
}

// Small bodies are part of the statement's text: each character alone, within others, and text like SQL.
TEST_P(StoreContract, SmallBodiesComeBackToTheByte) {
  std::vector<std::string> bodies{R"({"order": 4711, "note": "50 % off? <b>yes</b> & more; #1"})",
                                  "a'b",
                                  "a\\",
                                  "\\'",
                                  "'; DROP TABLE rung_tasks -- ",
                                  ":rows :ids",
                                  "trailing  ",
                                  "/*!50000 x */",
                                  "%s ? @x"};
  for (int c = 0; c < 256; ++c) {
    bodies.emplace_back(1, static_cast<char>(c));
    bodies.push_back(std::string("a") + static_cast<char>(c) + "b");
  }
  std::map<TaskId, std::string> wanted;
  std::vector<NewTask> tasks;
  std::vector<TaskId> ids;
  for (const std::string& body : bodies) {
    tasks.push_back(task("orders", body));
    ids.push_back(tasks.back().task.id);
    wanted[ids.back()] = body;
  }
  store_->insert(tasks, fence());
  const auto messages = store_->messages(ids);
  EXPECT_EQ(messages.size(), bodies.size());
  for (const StoredMessage& m : messages) EXPECT_EQ(m.message->body, wanted.at(m.id));
}

TEST_P(StoreContract, TheSameCallAgainChangesNothing) {
  std::vector<NewTask> tasks{task(), task()};
  tasks[0].intake_key = "0123456789abcdef";
  for (int i = 0; i < 2; ++i) {
    const auto inserted = store_->insert(tasks, fence());
    EXPECT_EQ(inserted[0].how, How::inserted);
    EXPECT_EQ(inserted[0].id, tasks[0].task.id);
    EXPECT_EQ(inserted[1].how, How::inserted);
  }
  tasks.push_back(task());  // a batch of which a part was inserted before
  EXPECT_EQ(store_->insert(tasks, fence())[2].how, How::inserted);
  EXPECT_EQ(store_->list({}).size(), 3U);
}

TEST_P(StoreContract, TheSameIntakeIsADuplicateAlsoInOneBatch) {
  const std::string key("\0\xFF'\\23456789abcdef", 16);
  std::vector<NewTask> tasks{task(), task(), task()};
  tasks[0].intake_key = tasks[2].intake_key = key;
  auto inserted = store_->insert(tasks, fence());
  EXPECT_EQ(inserted[0].how, How::inserted);
  EXPECT_EQ(inserted[1].how, How::inserted);
  EXPECT_EQ(inserted[2].how, How::duplicate);
  EXPECT_EQ(inserted[2].id, tasks[0].task.id);
  NewTask later = task();
  later.intake_key = key;
  inserted = store_->insert(std::span(&later, 1), fence());
  EXPECT_EQ(inserted[0].how, How::duplicate);
  EXPECT_EQ(inserted[0].id, tasks[0].task.id);
  // Also if the lease is gone: the message is safe, whoever owns its shard.
  NewTask foreign = task();
  foreign.intake_key = key;
  EXPECT_EQ(store_->insert(std::span(&foreign, 1), Fence{})[0].how, How::duplicate);
  EXPECT_EQ(store_->list({}).size(), 2U);
}

TEST_P(StoreContract, AFinishedRowLetsGoOfItsKeyUnlessTold) {
  NewTask first = task();
  first.intake_key = "0123456789abcdef";
  insert(first);
  apply_one(first.task.id, event::Cancel{});
  NewTask same = task();
  same.intake_key = first.intake_key;
  same.same_if_over_since = EpochMs{};
  auto inserted = store_->insert(std::span(&same, 1), fence());
  EXPECT_EQ(inserted[0].how, How::duplicate);
  EXPECT_EQ(inserted[0].id, first.task.id);
  NewTask anew = task();
  anew.intake_key = first.intake_key;
  EXPECT_EQ(store_->insert(std::span(&anew, 1), fence())[0].how, How::inserted);
  NewTask third = task();
  third.intake_key = first.intake_key;
  inserted = store_->insert(std::span(&third, 1), fence());
  EXPECT_EQ(inserted[0].how, How::duplicate);
  EXPECT_EQ(inserted[0].id, anew.task.id);
}

// A consumer that does not pass retry-id on: the failure of its retry looks like the first failure.
TEST_P(StoreContract, AnOpenRowLetsGoOfItsKeyAfterAnAttemptIfAsked) {
  NewTask first = task();
  first.intake_key = "0123456789abcdef";
  insert(first);
  NewTask second = task();
  second.intake_key = first.intake_key;
  second.may_be_its_retry = true;
  auto inserted = store_->insert(std::span(&second, 1), fence());
  EXPECT_EQ(inserted[0].how, How::duplicate) << "no attempt yet";
  wait_until_applied(first.task.id, event::Claim{});
  NewTask other = task();
  other.intake_key = first.intake_key;
  EXPECT_EQ(store_->insert(std::span(&other, 1), fence())[0].how, How::duplicate) << "not asked";
  inserted = store_->insert(std::span(&second, 1), fence());
  EXPECT_EQ(inserted[0].how, How::inserted);
  EXPECT_EQ(store_->list({}).size(), 2U);
}

// The answer to its commit was lost, and by the retry the lease was lost too. The answer "nothing was
// written" would make the caller insert it under another id: a second task, if the first was already
// finished.
TEST_P(StoreContract, WhatIsHereAlreadyIsFoundAlsoWithoutTheLease) {
  const NewTask n = task();
  insert(n);
  applied(n.task.id, event::Cancel{});
  store_->release(fence().node, fence().leases);
  insert(n);
  EXPECT_EQ(get(n.task.id).state, State::cancelled);
}

TEST_P(StoreContract, OnlyWhatItsLeaseCoversIsInserted) {
  const Fence a = join("a", {1, 2});
  Fence claims = a;
  claims.leases.push_back({3, 1});
  claims.leases[0].epoch = 99;  // an epoch that is not ours
  std::vector<NewTask> tasks{task(), task(), task()};
  for (int i = 0; i < 3; ++i) tasks[static_cast<std::size_t>(i)].task.shard = i + 1;
  const auto inserted = store_->insert(tasks, claims);
  EXPECT_EQ(inserted[0].how, How::not_held);
  EXPECT_EQ(inserted[1].how, How::inserted);
  EXPECT_EQ(inserted[2].how, How::not_held);
  EXPECT_EQ(store_->list({}).size(), 1U);
}

TEST_P(StoreContract, TooLargeABodyIsToldAndTheOthersAreWritten) {
  if (memory_) memory_->set_max_body(1 << 20);
  std::size_t most = 1 << 20;
  if (mysql_) most = std::stoul(mysql_->value("SELECT @@max_allowed_packet"));
  const std::vector<NewTask> tasks{task(), task("orders", std::string(most + 1, 'x')), task()};
  const auto inserted = store_->insert(tasks, fence());
  EXPECT_EQ(inserted[0].how, How::inserted);
  EXPECT_EQ(inserted[1].how, How::too_large);
  EXPECT_EQ(inserted[2].how, How::inserted);
  EXPECT_EQ(store_->list({}).size(), 2U);
}

TEST_P(StoreContract, ALargeBatchGoesInWhole) {
  std::vector<NewTask> tasks;
  for (int i = 0; i < 1300; ++i) tasks.push_back(task("orders", std::string(i % 7 == 0 ? 40'000 : 10, 'b')));
  std::reverse(tasks.begin(), tasks.end());
  const auto inserted = store_->insert(tasks, fence());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    ASSERT_EQ(inserted[i].how, How::inserted);
    ASSERT_EQ(inserted[i].id, tasks[i].task.id);
  }
  EXPECT_EQ(store_->list(Filter{.states = {State::scheduled}, .limit = 10'000}).size(), 1300U);
}

// ---- The digest and the parent of a task, and a message that comes back with other headers.

TEST_P(ReadContract, ChildrenAreFoundByTheMessageId) {
  join("a");
  const auto put = [&](const std::string& message_id, TaskId parent) {
    NewTask n = task();
    n.task.message_id = message_id;
    n.task.parent = parent;
    return insert(n);
  };
  const TaskId parent = put("m-1", {}), other = put("m-1", {}), bare = put("", {});
  const TaskId first = put("m-1", parent), second = put("m-1", parent);
  put("m-1", other);
  put("m-1 ", parent);  // for the database they are equal
  put("m-2", parent);
  put("", bare);
  EXPECT_THAT(database().children(get(parent)), testing::ElementsAre(first, second));
  EXPECT_THAT(database().children(get(first)), testing::IsEmpty());
  EXPECT_THAT(database().children(get(bare)), testing::IsEmpty());
  for (int i = 0; i < MysqlStore::kMostChildren; ++i) put("m-1", parent);
  EXPECT_THAT(database().children(get(parent)), testing::SizeIs(MysqlStore::kMostChildren));
}

TEST_P(StoreContract, AMessageThatComesBackWithOtherHeadersReplacesTheOneInTheRow) {
  NewTask fresh = task();
  const TaskId id = fresh.task.id;
  const MessagePtr before = fresh.message;
  fresh.task.digest = message_digest(*before);
  insert(fresh);
  for (int attempt = 1; attempt <= 2; ++attempt) {
    deliver(id);
    auto received = std::make_shared<ReceivedMessage>();
    auto message = std::make_shared<Message>(*before);
    message->headers = Table{{"retries", attempt}};
    message->properties.type = "again";
    received->digest = message_digest(*message);
    received->message = message;
    event::Failed failed{attempt, "again", "", {}};
    failed.received = received;
    const Decision d = apply_one(id, failed);
    ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
    EXPECT_EQ(*store_->messages({&id, 1}).at(0).message, *message);
    const Task task = get(id);
    EXPECT_TRUE(task == d.task);
    EXPECT_EQ(task.digest, received->digest);
    EXPECT_EQ(task.tag, "again");
  }
  const std::string origin = store_->known({&id, 1}).at(0).origin;
  EXPECT_NE(origin.find("earlier content"), std::string::npos) << origin;
  EXPECT_NE(origin.find(R"(\"retries\")"), std::string::npos) << "the headers of the first: " << origin;
}

}  // namespace
}  // namespace rung::test
