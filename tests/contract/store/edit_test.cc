// Edit and retry: the new task and the mark of the parked one are one transaction.
#include <atomic>
#include <nlohmann/json.hpp>

#include "src/api/messages/messages.h"
#include "src/api/tasks/tasks.h"
#include "src/core/machine/by_hand.h"
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

using nlohmann::json;

class EditContract : public StoreContract {
 protected:
  TaskId parked() {
    NewTask n = task();
    n.task.first_failed_at = db_now() - Ms{1000};
    n.task.last_error = "no city";
    n.task.body_bytes = static_cast<std::int64_t>(n.message->body.size());
    begin_parked(n.task, "no city", *rules(), db_now());
    return insert(n);
  }
  MessagePtr with_body(TaskId id, const std::string& body) {
    auto message = std::make_shared<Message>(*api::read_original(database(), id).message);
    message->body = body;
    return message;
  }
  Event editing(TaskId id, const MessagePtr& message, std::optional<std::uint32_t> version = {}) {
    return api::edit_event(api::read_original(database(), id), message, {"ann@desk (test)", version, "city"},
                           db_now());
  }
  Decision send(const Event& event, const Fence& by) {
    return store_->apply(std::span(&event, 1), by, decider()).at(0);
  }
  Decision send(const Event& event) { return send(event, Fence{}); }
  std::size_t tasks() { return store_->list(Filter{}).size(); }
};

TEST_P(EditContract, TheChildIsInsertedAndTheParkedTaskSaysSo) {
  const TaskId id = parked();
  const Task before = get(id);
  const MessagePtr message = with_body(id, "fixed");
  const Decision d = send(editing(id, message, before.version));
  ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
  ASSERT_NE(d.child, nullptr);
  const Task original = get(id), child = get(d.child->task.id);
  EXPECT_EQ(original.state, State::discarded);
  EXPECT_EQ(original.replaced_by, child.id);
  // Its message has no id: the parked task names it.
  EXPECT_THAT(api::children_of(database(), original), testing::ElementsAre(child.id));
  EXPECT_EQ(original.version, before.version + 1);
  EXPECT_EQ(child.parent, id);
  EXPECT_EQ(child.state, State::scheduled);
  EXPECT_EQ(child.level, 1);
  EXPECT_EQ(child.attempt, 0);
  EXPECT_EQ(child.queue, original.queue);
  EXPECT_EQ(child.body_bytes, 5);
  EXPECT_EQ(child.first_failed_at, original.first_failed_at);
  EXPECT_EQ(child.replaced_by, TaskId{});
  EXPECT_EQ(child.shard, original.shard);
  EXPECT_LE(child.next_at, db_now()) << "due now";
  const TaskId ids[] = {child.id};
  EXPECT_EQ(store_->messages(ids).at(0).message->body, "fixed");
  EXPECT_EQ(content_of_origin(store_->known(ids).at(0).origin, kEdited), edit_content(*message));

  const AuditRow audit = store_->audit(id).at(0);
  EXPECT_EQ(audit.what, "edit");
  EXPECT_EQ(audit.reason, "city");
  const json was = json::parse(audit.before), is = json::parse(audit.after);
  EXPECT_EQ(was.at("body_bytes"), 5);
  EXPECT_EQ(is.at("body_bytes"), 5);
  EXPECT_NE(was.at("body_sha256"), is.at("body_sha256"));
  EXPECT_TRUE(was.at("replaced_by").is_null());
  EXPECT_EQ(is.at("replaced_by"), child.id.str());
  EXPECT_EQ(audit.after.find("fixed"), std::string::npos) << "never a body";
  EXPECT_TRUE(store_->audit(child.id).empty());
}

TEST_P(EditContract, TheOwnerOfAShardGetsTheChildIntoOneOfItsShards) {
  const TaskId id = parked();
  const Decision d = send(editing(id, with_body(id, "fixed")), fence());
  ASSERT_EQ(d.verdict, Verdict::applied) << d.reason;
  const int shard = get(d.child->task.id).shard;
  EXPECT_TRUE(std::ranges::any_of(fence().leases, [&](const Lease& l) { return l.shard == shard; }));
  applied(d.child->task.id, event::Claim{});
}

TEST_P(EditContract, TwiceIsOneChild) {
  const TaskId id = parked();
  const MessagePtr message = with_body(id, "fixed");
  const Event first = editing(id, message, 1), again = editing(id, message, 1), other = editing(id, message);
  const Decision one = send(first);
  ASSERT_EQ(one.verdict, Verdict::applied) << one.reason;
  for (const Event& event : {first, again, other}) {  // a lost answer, the same request, without the version
    const Decision d = send(event);
    ASSERT_EQ(d.verdict, Verdict::refused);
    const auto there = api::replacement_of(database(), d.task.replaced_by, *message);
    EXPECT_EQ(there.same.value_or(Task{}).id, one.child->task.id);
  }
  const MessagePtr third = with_body(id, "otherwise");
  const auto there = api::replacement_of(database(), send(editing(id, third, 1)).task.replaced_by, *third);
  EXPECT_FALSE(there.same);
  EXPECT_THAT(there.why_not, testing::HasSubstr(one.child->task.id.str()));
  EXPECT_EQ(tasks(), 2U);
  EXPECT_EQ(store_->audit(id).size(), 1U);
}

TEST_P(EditContract, InOneBatchTwiceIsOneChild) {
  const TaskId id = parked();
  const MessagePtr message = with_body(id, "fixed");
  const Event events[] = {editing(id, message), editing(id, message)};
  const auto decisions = store_->apply(events, fence(), decider());
  EXPECT_EQ(decisions[0].verdict, Verdict::applied);
  EXPECT_EQ(decisions[1].verdict, Verdict::refused);
  EXPECT_EQ(tasks(), 2U);
}

TEST_P(EditContract, ManyAtOnceMakeOneChild) {
  const TaskId id = parked();
  std::atomic<int> edited = 0;
  std::vector<Event> events;
  for (int i = 0; i < 6; ++i)
    events.push_back(editing(id, with_body(id, i % 2 == 0 ? "fixed" : "otherwise"), 1));
  in_threads(6, [&](int i) {
    const auto store = open();
    const auto decisions = store->apply({&events[static_cast<std::size_t>(i)], 1}, Fence{}, decider());
    if (decisions.front().verdict == Verdict::applied) ++edited;
  });
  EXPECT_EQ(edited, 1);
  EXPECT_EQ(tasks(), 2U);
  EXPECT_EQ(store_->audit(id).size(), 1U);
}

TEST_P(EditContract, WhatCannotBeInsertedMarksNothing) {
  const TaskId id = parked(), there = parked();
  Event event = editing(id, with_body(id, "fixed"));
  auto edited = std::make_shared<EditedMessage>(*std::get<event::Edit>(event.what).edited);
  edited->id = there;  // taken
  event.what = event::Edit{edited};
  Decision d = send(event);
  EXPECT_EQ(d.verdict, Verdict::refused);
  EXPECT_EQ(d.reason, kIdTaken);
  d = send(editing(id, with_body(id, std::string(std::size_t{70} << 20U, 'x'))));
  EXPECT_EQ(d.verdict, Verdict::refused);
  EXPECT_EQ(d.reason, kBodyTooLarge);
  EXPECT_EQ(get(id).replaced_by, TaskId{});
  EXPECT_EQ(get(id).version, 1U);
  EXPECT_EQ(tasks(), 2U);
  EXPECT_TRUE(store_->audit(id).empty());
}

TEST_P(EditContract, AReplacedTaskIsNotRedrivenUnlessToldSo) {
  const TaskId id = parked();
  const Decision d = send(editing(id, with_body(id, "fixed")));
  const Event plain{id, event::Redrive{}, ByHand{"ann", {}}};
  const Decision refused = send(plain);
  EXPECT_EQ(refused.verdict, Verdict::refused);
  EXPECT_THAT(refused.reason, testing::HasSubstr(d.child->task.id.str()));
  NewBulk all;
  all.action = BulkAction::redrive;
  all.who = "ann";
  const Bulk bulk = store_->create_bulk(all);
  EXPECT_EQ(bulk.total, 0);
  EXPECT_EQ(send(event_of(bulk, id)).verdict, Verdict::refused);
  ASSERT_EQ(send({id, event::Redrive{{}, false, true}, ByHand{"ann", {}}}).verdict, Verdict::applied);
  EXPECT_EQ(get(id).state, State::scheduled);
  EXPECT_EQ(get(id).replaced_by, TaskId{});
}

TEST_P(EditContract, ACauseCountsTheChildButNoNewFailure) {
  const TaskId id = parked();
  store_->fold_causes(1000);
  const std::string cause = get(id).cause;
  ASSERT_NE(cause, "");
  const Decision d = send(editing(id, with_body(id, "fixed")));
  store_->fold_causes(1000);
  CauseFilter filter;
  filter.id = cause;
  const CauseRow row = database().causes(filter).at(0);
  EXPECT_EQ(get(d.child->task.id).cause, cause);
  EXPECT_EQ(row.parked, 0);
  EXPECT_EQ(row.scheduled, 1);
  EXPECT_EQ(row.last_hour, 1) << "the parked one's";
}

INSTANTIATE_TEST_SUITE_P(Stores, EditContract, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
