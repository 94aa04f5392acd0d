// The digest and the parent of a task, and a message that comes back with other headers.
#include "src/core/message/identity.h"

#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

TEST_P(StoreContract, DigestAndParentAreWrittenAndRead) {
  const Fence fence = join(*store_, "a");
  NewTask n = task();
  n.task.digest = message_digest(*n.message);
  n.task.parent = {4711};
  must(store_->insert({&n, 1}, Fence{0, {}, true}));
  EXPECT_EQ(get(*store_, n.task.id).digest, n.task.digest);
  EXPECT_EQ(get(*store_, n.task.id).parent, TaskId{4711});
  const TaskId old = due_task(*store_, fence);
  EXPECT_EQ(get(*store_, old).digest, "") << "a row of before the digest";
}

TEST_P(ReadContract, ChildrenAreFoundByTheMessageId) {
  join(*store_, "a");
  const auto insert = [&](const std::string& message_id, TaskId parent) {
    NewTask n = task();
    n.task.message_id = message_id;
    n.task.parent = parent;
    must(store_->insert({&n, 1}, Fence{0, {}, true}));
    return n.task.id;
  };
  const TaskId parent = insert("m-1", {}), other = insert("m-1", {}), bare = insert("", {});
  const TaskId first = insert("m-1", parent), second = insert("m-1", parent);
  insert("m-1", other);
  insert("m-1 ", parent);  // for the database they are equal
  insert("m-2", parent);
  insert("", bare);
  EXPECT_THAT(must(database().children(get(*store_, parent))), testing::ElementsAre(first, second));
  EXPECT_THAT(must(database().children(get(*store_, first))), testing::IsEmpty());
  EXPECT_THAT(must(database().children(get(*store_, bare))), testing::IsEmpty());
  for (int i = 0; i < MysqlStore::kMostChildren; ++i) insert("m-1", parent);
  EXPECT_THAT(must(database().children(get(*store_, parent))), testing::SizeIs(MysqlStore::kMostChildren));
}

TEST_P(StoreContract, AMessageThatComesBackWithOtherHeadersReplacesTheOneInTheRow) {
  const Fence fence = join(*store_, "a");
  NewTask fresh = task();
  const TaskId id = fresh.task.id;
  const MessagePtr before = fresh.message;
  fresh.task.digest = message_digest(*before);
  must(store_->insert({&fresh, 1}, fence));
  for (int attempt = 1; attempt <= 2; ++attempt) {
    wait_until(
        [&] { return apply_one(*store_, fence, id, event::Claim{}).verdict == Decision::Verdict::applied; });
    ASSERT_EQ(apply_one(*store_, fence, id, event::Confirmed{attempt, must(store_->now())}).verdict,
              Decision::Verdict::applied);
    auto received = std::make_shared<ReceivedMessage>();
    auto message = std::make_shared<Message>(*before);
    message->headers = Table{{"retries", attempt}};
    message->properties.type = "again";
    received->digest = message_digest(*message);
    received->message = message;
    event::Failed failed{attempt, "again", "", {}};
    failed.received = received;
    const Decision d = apply_one(*store_, fence, id, failed);
    ASSERT_EQ(d.verdict, Decision::Verdict::applied) << d.reason;
    EXPECT_EQ(*must(store_->messages({&id, 1})).at(0).message, *message);
    const Task task = get(*store_, id);
    EXPECT_TRUE(task == d.task);
    EXPECT_EQ(task.digest, received->digest);
    EXPECT_EQ(task.tag, "again");
  }
  const std::string origin = must(store_->known({&id, 1})).at(0).origin;
  EXPECT_NE(origin.find("earlier content"), std::string::npos) << origin;
  EXPECT_NE(origin.find(R"(\"retries\")"), std::string::npos) << "the headers of the first: " << origin;
}

}  // namespace
}  // namespace rung::test
