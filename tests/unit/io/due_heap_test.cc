#include "src/io/due_heap.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "src/io/uv_loop.h"
#include "tests/support/clock.h"

namespace rung::io {
namespace {

struct Fired {
  DueItem item;
  EpochMs when;
};

// A heap on a loop of its own, with a database's clock that stands `ahead` of nothing in particular.
class DueHeapTest : public testing::Test {
 protected:
  DueHeapTest() { set_db_now({1'800'000'000'000}); }

  void set_db_now(EpochMs now) {
    clock_.measured({now.ms * 1000}, test_clock().boot_us(), test_clock().boot_us());
  }
  void add(std::int64_t id, Ms in) { heap_.add({TaskId{id}, clock_.now() + in, 3}); }

  // Runs until `count` have fired, two minutes at most.
  void run_until_fired(std::size_t count) {
    wanted_ = count;
    Timer bound(loop_, [this] { loop_.stop(); });
    bound.start(Ms{120'000});
    if (fired_.size() < wanted_) loop_.run();
    ASSERT_GE(fired_.size(), count) << "not fired";
  }

  UvLoop loop_{test_clock()};
  DbClock clock_{test_clock()};
  std::vector<Fired> fired_;
  std::size_t wanted_ = 0;
  DueHeap heap_{loop_, clock_, [this](const std::vector<DueItem>& items) {
                  for (const DueItem& item : items) fired_.push_back({item, clock_.now()});
                  if (fired_.size() >= wanted_) loop_.stop();
                }};
};

TEST_F(DueHeapTest, FiresEachOnceAndNeverEarly) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 dice(seed);
  for (int id = 1; id <= 500; ++id) add(id, Ms{std::uniform_int_distribution<>(0, 400)(dice)});
  EXPECT_EQ(heap_.size(), 500U);
  run_until_fired(500);
  std::set<TaskId> seen;
  for (const Fired& f : fired_) {
    EXPECT_GE(f.when, f.item.at) << "early: " << f.item.id.value;
    EXPECT_TRUE(seen.insert(f.item.id).second) << "twice: " << f.item.id.value;
    EXPECT_EQ(f.item.shard, 3);
  }
  EXPECT_EQ(seen.size(), 500U);
  EXPECT_EQ(heap_.size(), 0U);
}

TEST_F(DueHeapTest, FiresAheadByWhatWasAskedForAndNoEarlier) {
  constexpr Ms kAhead{250};
  std::vector<Fired> ahead;
  std::vector<std::size_t> fired_before;
  DueHeap heap{loop_, clock_,
               [&](const std::vector<DueItem>& items) {
                 for (const DueItem& item : items) ahead.push_back({item, clock_.now()});
                 fired_before.push_back(fired_.size());
                 if (ahead.size() == 3) loop_.stop();
               },
               kAhead};
  Timer bound(loop_, [this] { loop_.stop(); });
  bound.start(Ms{120'000});
  // Due within the lead, a little later, and later than the heap's fine slots reach at first.
  const EpochMs began = clock_.now();
  const Ms due[] = {kAhead / 2, Ms{600}, Ms{3500}};
  wanted_ = 4;  // the plain heap stops nothing
  for (int i = 0; i < 3; ++i) {
    heap.add({TaskId{i + 1}, began + due[i], 0});
    heap_.add({TaskId{i + 1}, began + due[i], 0});
  }
  loop_.run();
  ASSERT_EQ(ahead.size(), 3U);
  for (const Fired& f : ahead) EXPECT_GE(f.when, f.item.at - kAhead) << f.item.id.value;
  EXPECT_EQ(fired_before, (std::vector<std::size_t>{0, 1, 2})) << "each before the heap that has no lead";
}

TEST_F(DueHeapTest, AStepOfTheDatabasesClockForwardFiresAtTheNextCheck) {
  add(1, Ms{3'600'000});
  set_db_now(clock_.now() + Ms{3'600'001});
  heap_.check_clock();
  run_until_fired(1);
  EXPECT_GE(fired_[0].when, fired_[0].item.at);
}

TEST_F(DueHeapTest, AStepBackwardNeverFiresEarly) {
  add(1, Ms{50});
  set_db_now(clock_.now() - Ms{300});
  run_until_fired(1);
  EXPECT_GE(fired_[0].when, fired_[0].item.at);
}

TEST_F(DueHeapTest, DropsWhatIsDueLastAndSaysFromWhenOnItIsIncomplete) {
  add(1, Ms{10});
  add(2, Ms{100'000});
  add(3, Ms{200'000});
  const EpochMs last = clock_.now() + Ms{200'000};
  const auto from = heap_.drop_latest();
  ASSERT_TRUE(from);
  EXPECT_LE(*from, last);
  EXPECT_EQ(heap_.size(), 2U);
  EXPECT_TRUE(heap_.drop_latest());
  EXPECT_TRUE(heap_.drop_latest());
  EXPECT_FALSE(heap_.drop_latest());
  EXPECT_EQ(heap_.size(), 0U);
}

}  // namespace
}  // namespace rung::io
