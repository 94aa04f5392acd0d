// Causes of failures: their counts agree with the tasks.
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CauseContract : public StoreContract {
 protected:
  NewTask failed(const std::string& error, const std::string& queue = "orders") {
    NewTask one = task(queue);
    one.task.first_failed_at = one.task.created_at;
    one.task.last_error = error;
    return one;
  }
  Decision fail(TaskId id, const std::string& error) {
    deliver(id);
    event::Failed failed{get(id).attempt, error, "", {}};
    failed.proven = true;
    return apply_one(id, failed);
  }
  CauseRow cause(const std::string& id) {
    const auto rows = database().causes({.id = id});
    EXPECT_THAT(rows, SizeIs(1));
    return rows.empty() ? CauseRow{} : rows.at(0);
  }
  // Adds all changes, as the upkeep does.
  void fold() {
    while (store_->fold_causes(3).more) {
    }
  }
  // The counts as the tasks have them: by cause (scheduled, parked, succeeded).
  using Counts = std::map<std::string, std::tuple<std::int64_t, std::int64_t, std::int64_t>>;
  Counts by_tasks() {
    Counts out;
    Filter all;
    all.limit = 10'000;
    for (const TaskRow& row : store_->list(all)) {
      if (row.task.cause.empty()) continue;
      auto& [scheduled, parked, succeeded] = out[row.task.cause];
      scheduled += row.task.state <= State::awaiting ? 1 : 0;
      parked += row.task.state == State::parked ? 1 : 0;
      succeeded += row.task.state == State::succeeded ? 1 : 0;
    }
    std::erase_if(out, [](const auto& one) { return one.second == std::tuple(0, 0, 0); });
    return out;
  }
  Counts by_causes() {
    Counts out;
    for (const CauseRow& row : database().causes({.limit = 10'000})) {
      if (row.scheduled + row.parked + row.succeeded != 0)
        out[row.id] = {row.scheduled, row.parked, row.succeeded};
    }
    return out;
  }
  std::vector<std::string> kinds() {
    std::vector<std::string> out;
    for (const SystemEvent& event : events(50)) out.insert(out.begin(), event.kind);
    return out;
  }
};

std::int64_t sum_of(const std::vector<std::int64_t>& trend) {
  return std::accumulate(trend.begin(), trend.end(), std::int64_t{0});
}

TEST_P(CauseContract, EqualFailuresOfAQueueAreOneCause) {
  const TaskId one = insert(failed("order 4711 has no address")),
               two = insert(failed("order 12 has no address")),
               other = insert(failed("order 4711 has no address", "invoices"));
  const std::string cause_id = get(one).cause;
  EXPECT_EQ(cause_id.size(), 12U);
  EXPECT_EQ(get(two).cause, cause_id);
  EXPECT_NE(get(other).cause, cause_id);
  const CauseRow row = cause(cause_id);
  EXPECT_EQ(row.queue, "orders");
  EXPECT_EQ(row.sample, "order 4711 has no address");
  EXPECT_EQ(row.scheduled, 2);
  EXPECT_EQ(row.total, 2);
  EXPECT_EQ(row.last_hour, 2);
  EXPECT_EQ(row.state, CauseState::fresh);
  EXPECT_GT(row.first_seen.ms, 0);
  EXPECT_EQ(kinds(), (std::vector<std::string>{"cause_appeared", "cause_appeared"}));
  Filter filter;
  filter.cause = cause_id;
  EXPECT_THAT(store_->list(filter), SizeIs(2));
  EXPECT_EQ(database().count(filter, 100), 2);
}

TEST_P(CauseContract, CountsFollowTheTasksBeforeAndAfterTheFold) {
  const TaskId id = insert(failed("timeout after 5 s"));
  const std::string timeout = get(id).cause;
  fail(id, "timeout after 7 s");
  EXPECT_EQ(cause(timeout).total, 1) << "the same task";
  EXPECT_EQ(cause(timeout).last_hour, 2) << "two failures";
  EXPECT_THAT(cause(timeout).trend, SizeIs(kCauseBuckets));
  EXPECT_EQ(sum_of(cause(timeout).trend), 2) << "before they are in a bucket, too";
  fail(id, "no such customer");
  const std::string customer = get(id).cause;
  ASSERT_NE(customer, timeout);
  EXPECT_EQ(cause(timeout).scheduled, 0);
  EXPECT_EQ(cause(customer).scheduled, 1);
  EXPECT_EQ(by_causes(), by_tasks());
  fold();
  EXPECT_EQ(by_causes(), by_tasks());
  EXPECT_EQ(cause(timeout).last_hour, 2);
  EXPECT_EQ(sum_of(cause(timeout).trend), 2);
  fail(id, "no such customer");
  EXPECT_EQ(get(id).state, State::parked);
  EXPECT_EQ(cause(customer).parked, 1);
  applied(id, event::Redrive{});
  EXPECT_EQ(cause(customer).parked, 0);
  EXPECT_EQ(cause(customer).scheduled, 1);
  applied(id, event::Cancel{});
  EXPECT_EQ(cause(customer).scheduled, 0);
  EXPECT_EQ(cause(customer).total, 1);
  fold();
  EXPECT_EQ(by_causes(), by_tasks());
}

TEST_P(CauseContract, ManyAtOnceAndWhatRetentionDeletes) {
  std::vector<NewTask> tasks;
  for (int i = 0; i < 40; ++i) tasks.push_back(failed(i % 2 == 0 ? "even " + std::to_string(i) : "odd"));
  store_->insert(tasks, fence());
  store_->insert(tasks, fence());  // the answer was lost: nothing counts twice
  wait_until([&] { return db_now() > tasks[0].task.next_at.value_or(EpochMs{}); });
  std::vector<Event> claims, confirms, ends;
  for (const NewTask& one : tasks) claims.push_back({one.task.id, event::Claim{}});
  const auto claimed = store_->apply(claims, fence(), decider());
  for (const Decision& decision : claimed)
    confirms.push_back(
        {decision.task.id, event::Confirmed{1, db_now()}, {}, std::make_shared<const Task>(decision.task)});
  const auto confirmed = store_->apply(confirms, fence(), decider());
  // On what was last written, without reading the rows.
  for (const Decision& decision : confirmed)
    ends.push_back({decision.task.id, event::Succeeded{1}, {}, std::make_shared<const Task>(decision.task)});
  store_->apply(ends, fence(), decider());
  EXPECT_EQ(by_causes(), by_tasks());
  ASSERT_EQ(by_causes().size(), 2U);
  fold();
  EXPECT_EQ(std::get<2>(by_causes().begin()->second), 20);
  wait_until([&] { return db_now() > get(tasks[0].task.id).finished_at.value_or(EpochMs{}); });
  EXPECT_EQ(store_->purge_finished(db_now() + Ms{1}, {}, 15).tasks, 15);
  EXPECT_EQ(by_causes(), by_tasks());
  fold();
  EXPECT_EQ(by_causes(), by_tasks());
  EXPECT_EQ(database().causes({}).at(0).total, 20) << "total is of all times";
}

TEST_P(CauseContract, AMessageThatOnlyWaitsHasNoCause) {
  NewTask delay = task();
  delay.task.kind = Kind::delay;
  delay.task.level = 0;
  const TaskId id = insert(delay);
  EXPECT_EQ(get(id).cause, "");
  EXPECT_THAT(database().causes({}), IsEmpty());
}

TEST_P(CauseContract, PeopleSayWhatACauseIs) {
  const std::string id = get(insert(failed("no stock"))).cause;
  EXPECT_FALSE(database().triage("000000000000", {}, "alice"));
  const auto row =
      database().triage(id, {CauseState::working, "alice", "see the ticket", "https://t/1"}, "alice");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->owner, "alice");
  EXPECT_EQ(row->state, CauseState::working);
  const auto more = database().triage(id, {.note = "mended in 1.2"}, "bob");
  EXPECT_EQ(more->note, "mended in 1.2");
  EXPECT_EQ(more->link, "https://t/1");
  const auto event = events(1).at(0);
  EXPECT_EQ(event.kind, "cause_triaged");
  EXPECT_EQ(event.subject, id);
  EXPECT_EQ(event.detail, "bob: note 'mended in 1.2'");
  EXPECT_THAT(database().causes({.queue = "orders", .states = {CauseState::working}}), SizeIs(1));
  EXPECT_THAT(database().causes({.states = {CauseState::fresh}}), IsEmpty());
  EXPECT_EQ(database().cause_totals().by_state.at(CauseState::working), 1);
}

TEST_P(CauseContract, AnIgnoredCauseThatGetsWorseIsNewAgain) {
  const std::string id = get(insert(failed("no stock"))).cause;
  fold();
  database().triage(id, {.state = CauseState::ignored}, "alice");
  for (int i = 0; i < 8; ++i) insert(failed("no stock"));
  fold();
  EXPECT_EQ(cause(id).state, CauseState::ignored) << "nine failures, ignored at one";
  insert(failed("no stock"));
  const EpochMs now = db_now();
  EXPECT_TRUE(store_->work_waiting(all_shards(), now, now).cause_changes);
  const auto folded = store_->fold_causes(100);
  ASSERT_THAT(folded.worse, SizeIs(1));
  EXPECT_EQ(folded.worse[0].id, id);
  EXPECT_EQ(cause(id).state, CauseState::fresh);
  EXPECT_TRUE(cause(id).worse_at);
  EXPECT_EQ(database().cause_totals().worse, 1);
  EXPECT_EQ(kinds().back(), "cause_worse");
  EXPECT_THAT(store_->fold_causes(100).worse, IsEmpty()) << "once";
  database().triage(id, {.state = CauseState::known}, "alice");
  EXPECT_EQ(database().cause_totals().worse, 0);
}

TEST_P(CauseContract, OneThatHasEndedIsResolvedAndHasRegressedWhenItFailsAgain) {
  const TaskId id = insert(failed("no stock"));
  const std::string mended = get(id).cause;
  const std::string other = get(insert(failed("no customer"))).cause;
  fold();
  database().triage(mended, {.owner = "alice"}, "alice");
  applied(id, event::Cancel{});
  fold();
  EXPECT_EQ(cause(mended).state, CauseState::resolved);
  EXPECT_EQ(database().triage(mended, {.note = "mended in 1.2"}, "alice")->state, CauseState::resolved);
  EXPECT_EQ(cause(other).state, CauseState::fresh) << "it has a task";
  insert(failed("no customer"));
  const TaskId again = insert(failed("no stock"));
  fold();
  EXPECT_EQ(cause(mended).state, CauseState::regressed);
  EXPECT_EQ(cause(mended).owner, "alice");
  EXPECT_EQ(kinds().back(), "cause_regressed");
  EXPECT_EQ(database().causes({}).at(0).id, mended) << "before one with more tasks";
  EXPECT_THAT(database().causes({.states = {CauseState::regressed}, .since = db_now() - Ms{60'000}}),
              SizeIs(1));
  EXPECT_EQ(database().triage(mended, {.note = "1.3, then"}, "alice")->state, CauseState::known);
  // By hand, with a task that is still under way: it succeeds, or fails once more.
  database().triage(mended, {.state = CauseState::resolved}, "alice");
  fold();
  EXPECT_EQ(cause(mended).state, CauseState::resolved);
  fail(again, "no stock");
  fold();
  EXPECT_EQ(cause(mended).state, CauseState::regressed);
}

TEST_P(CauseContract, AnIgnoredOneStaysIgnoredWhenItEnds) {
  const TaskId id = insert(failed("no stock"));
  const std::string cause_id = get(id).cause;
  database().triage(cause_id, {.state = CauseState::ignored}, "alice");
  applied(id, event::Cancel{});
  fold();
  EXPECT_EQ(cause(cause_id).state, CauseState::ignored);
}

// Whoever writes errors decides how many causes there are.
TEST_P(CauseContract, WhatAQueueMayHaveIsBounded) {
  std::vector<NewTask> tasks;
  const auto word = [](int n) {
    std::string out;
    for (const char letter : std::string("aeiou")) {
      out += letter;
      out += static_cast<char>('b' + n % 5);
      n /= 5;
    }
    return out;
  };
  for (int i = 0; i < static_cast<int>(CauseBook::kMostOfQueue) + 20; ++i) {
    tasks.push_back(failed("it is " + word(i)));
    if (tasks.size() < 100) continue;
    store_->insert(tasks, fence());
    tasks.clear();
  }
  store_->insert(tasks, fence());
  fold();
  const TaskId late = insert(failed("it is something else"));
  const auto rows = database().causes({.limit = 1000});
  EXPECT_LE(rows.size(), CauseBook::kMostOfQueue + 100) << "one batch may be beyond it";
  EXPECT_THAT(cause(get(late).cause).sample, HasSubstr("other errors"));
  EXPECT_EQ(by_causes(), by_tasks());
  const TaskId other = insert(failed("it is something else", "invoices"));
  EXPECT_EQ(cause(get(other).cause).sample, "it is something else");
}

TEST_P(CauseContract, WhatNobodyNeedsIsForgotten) {
  const TaskId id = insert(failed("no stock"));
  constexpr Ms kLater = kCauseForgotten + Ms{1000};
  fold();
  EXPECT_EQ(store_->forget(db_now() + kLater, 10), 0) << "a task has it";
  applied(id, event::Cancel{});
  fold();
  EXPECT_EQ(store_->forget(db_now() + kCauseKept, 10), 0) << "it has just failed";
  EXPECT_EQ(store_->forget(db_now() + kLater, 10), 1);
  EXPECT_THAT(database().causes({}), IsEmpty());
}

// Processes leave out of their books what is about to be forgotten: who has it there would count a failure
// without storing what it is.
TEST_P(CauseContract, ThatIsForgottenComesBackWhole) {
  const TaskId id = insert(failed("no stock"));
  const std::string cause_id = get(id).cause;
  applied(id, event::Cancel{});
  fold();
  mysql_->exec("UPDATE rung_causes SET last_seen = last_seen - INTERVAL 31 DAY");
  store_->read_causes();
  EXPECT_EQ(store_->forget(db_now(), 10), 1);
  insert(failed("no stock"));
  fold();
  EXPECT_EQ(cause(cause_id).queue, "orders");
  EXPECT_EQ(cause(cause_id).sample, "no stock");
  EXPECT_EQ(cause(cause_id).scheduled, 1);
  EXPECT_EQ(kinds(), (std::vector<std::string>{"cause_appeared", "cause_appeared"}));
}

INSTANTIATE_TEST_SUITE_P(Stores, CauseContract, testing::Values("mysql"));

}  // namespace
}  // namespace rung::test
