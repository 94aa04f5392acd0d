// What has changed lately, for those who watch.
#include <algorithm>

#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LiveContract : public StoreContract {
 protected:
  void SetUp() override {
    StoreContract::SetUp();
    fence_ = join(*store_, "a");
  }
  NewTask waiting() {
    NewTask fresh = task("orders");
    fresh.task.next_at = must(store_->now()) + Ms{3'600'000};
    return fresh;
  }
  TaskId insert() {
    NewTask fresh = waiting();
    must(store_->insert(std::span(&fresh, 1), fence_));
    return fresh.task.id;
  }
  void fire(const std::vector<TaskId>& ids) {
    std::vector<Event> events;
    for (const TaskId id : ids) events.push_back({id, event::Fire{}, ByHand{"ann@desk (test)", {}}});
    must(store_->apply(events, Fence{}, decider()));
  }
  // What has changed since `before`.
  LiveAnswer since(const LiveAnswer& before, const std::vector<TaskId>& watched = {}) {
    return must(database().live({before.newest_audit, before.newest_event, watched}));
  }
  LiveAnswer now() { return must(database().live({})); }

  Fence fence_;
};

TEST_P(LiveContract, ATaskThatSomebodyChangesIsNamedOnce) {
  const TaskId id = insert();
  const LiveAnswer before = now();
  EXPECT_THAT(before.changed_by_hand, IsEmpty()) << "only from now on";
  EXPECT_THAT(since(before).changed_by_hand, IsEmpty());
  fire({id});
  const LiveAnswer after = since(before);
  EXPECT_THAT(after.changed_by_hand, ElementsAre(id));
  EXPECT_GT(after.newest_audit, before.newest_audit);
  EXPECT_THAT(since(after).changed_by_hand, IsEmpty());
}

TEST_P(LiveContract, TheVersionOfAWatchedTaskTellsThatItMoved) {
  const TaskId id = insert(), other = insert();
  const LiveAnswer before = since(now(), {id, other, {id.value + 1'000'000}});
  EXPECT_EQ(before.versions.size(), 2U) << "one of them does not exist";
  fire({id});
  const LiveAnswer after = since(before, {id, other});
  EXPECT_NE(after.versions.at(id), before.versions.at(id));
  EXPECT_EQ(after.versions.at(other), before.versions.at(other));
}

TEST_P(LiveContract, NewTasksAndEventsAndOpenBulksAreSeen) {
  const LiveAnswer before = now();
  const TaskId id = insert();
  SystemEvent stepped;
  stepped.kind = "clock_step";
  must(store_->record_event(0, stepped));
  NewBulk wish;
  wish.action = BulkAction::fire;
  wish.who = "ann";
  wish.paused = true;
  const Bulk bulk = must(store_->create_bulk(wish));
  const LiveAnswer after = since(before);
  EXPECT_EQ(after.newest_task, id.value);
  EXPECT_THAT(after.event_kinds, Contains("clock_step"));
  EXPECT_EQ(after.bulks.at(bulk.id), 0);
  must(store_->set_bulk({bulk.id, BulkState::aborted}));
  EXPECT_FALSE(since(after).bulks.contains(bulk.id));
}

TEST_P(LiveContract, ManyChangesAreBounded) {
  std::vector<NewTask> fresh;
  std::vector<TaskId> ids;
  for (std::size_t i = 0; i < LiveAnswer::kMost + 50; ++i) {
    fresh.push_back(waiting());
    ids.push_back(fresh.back().task.id);
  }
  must(store_->insert(fresh, fence_));
  const LiveAnswer before = now();
  fire(ids);
  EXPECT_EQ(since(before).changed_by_hand.size(), LiveAnswer::kMost + 1)
      << "one more says that there are more";
}

INSTANTIATE_TEST_SUITE_P(Stores, LiveContract, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
