// What instances share about attached queues and held silences.
#include "tests/contract/store/world.h"

namespace rung::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using enum AttachmentState;

class AttachmentContract : public StoreContract {
 protected:
  AttachmentSighting seen(AttachmentState state, const std::string& queue = "orders", Ms ago = Ms{0}) {
    return {queue, state, "as seen", db_now() - ago};
  }
  std::optional<AttachmentRecord> see(const AttachmentSighting& one) {
    store_->see_attachments({&one, 1});
    const AttachmentRecords records = store_->attachments({&one.queue, 1});
    const auto it = records.find(one.queue);
    return it == records.end() ? std::nullopt : std::optional(it->second);
  }
  // A later look.
  std::optional<AttachmentRecord> see_later(AttachmentState state) {
    const EpochMs before = db_now();
    wait_until([&] { return db_now() > before; });
    return see(seen(state));
  }
  std::vector<std::string> kinds() {
    std::vector<std::string> out;
    for (const SystemEvent& event : events(10)) {
      if (!event.kind.starts_with("cause_")) out.insert(out.begin(), event.kind);
    }
    return out;
  }
  TaskId awaiting(const std::string& queue = "orders") {
    const TaskId id = due_task(queue);
    deliver(id);
    return id;
  }
};

TEST_P(AttachmentContract, OfAQueueThatWasNeverAttachedNothingIsKnown) {
  EXPECT_FALSE(see(seen(detached)));
  EXPECT_FALSE(see(seen(gone)));
  EXPECT_THAT(store_->attachments({}), IsEmpty());
  EXPECT_THAT(kinds(), IsEmpty());
}

TEST_P(AttachmentContract, ADetachmentIsKeptAndItsEnd) {
  const auto first = see(seen(attached));
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->attached_at);
  EXPECT_EQ(held_because(&*first, {}), "");
  const auto away = see_later(detached);
  EXPECT_EQ(away->state, detached);
  EXPECT_THAT(held_because(&*away, db_now()), HasSubstr("queue orders is not attached (as seen) since"));
  EXPECT_EQ(see_later(detached)->since, away->since);
  const auto back = see_later(attached);
  EXPECT_EQ(back->state, attached);
  ASSERT_TRUE(back->attached_at);
  EXPECT_THAT(held_because(&*back, *back->attached_at - Ms{1}), HasSubstr("was not attached until"));
  EXPECT_EQ(held_because(&*back, *back->attached_at), "");
  EXPECT_EQ(kinds(), (std::vector<std::string>{"silence_held", "silence_resumed"}));
  const std::string other = "other";
  EXPECT_THAT(store_->attachments({&other, 1}), IsEmpty());
  EXPECT_EQ(store_->attachments({}), (AttachmentRecords{{"orders", *back}}));
}

TEST_P(AttachmentContract, ALookThatIsOlderThanTheStateChangesNothing) {
  const auto old = seen(attached, "orders", Ms{5000});
  see(seen(attached));
  see_later(detached);
  EXPECT_EQ(see(old)->state, detached);
  auto failure = seen(attached);
  failure.by_failure = true;
  EXPECT_EQ(see(failure)->state, detached) << "it may have waited in rung.failed";
}

// A sidecar that has just joined writes what it saw before, and looks again meanwhile.
TEST_P(AttachmentContract, ALookThatIsWrittenLateMakesNoLaterLookAnOlderOne) {
  const auto first = seen(attached, "orders", Ms{5000}), second = seen(detached, "orders", Ms{1000});
  EXPECT_EQ(see(first)->state, attached);
  EXPECT_EQ(see(second)->state, detached);
  EXPECT_EQ(see(second)->since, second.seen_at);
  EXPECT_EQ(kinds(), (std::vector<std::string>{"silence_held"}));
  const auto third = seen(attached, "orders", Ms{500});
  EXPECT_EQ(see(third)->state, attached);
}

TEST_P(AttachmentContract, AFailureMakesNoLookAnOlderOne) {
  const auto look = seen(detached, "orders", Ms{1000});
  auto failure = seen(attached);
  failure.by_failure = true;
  failure.detail = kDeadLetterArrived;
  EXPECT_EQ(see(failure)->state, attached);
  EXPECT_EQ(see(look)->state, detached) << "the failure may have waited in rung.failed";
}

TEST_P(AttachmentContract, AFailureOrRungDetachTellsThatItWasAttached) {
  auto failure = seen(attached);
  failure.by_failure = true;
  EXPECT_EQ(see(failure)->state, attached);
  auto by_hand = seen(detached, "invoices");
  by_hand.was_attached = true;
  EXPECT_EQ(see(by_hand)->state, detached);
}

TEST_P(AttachmentContract, QueuesThatDifferInABlankAreTwo) {
  see(seen(attached, "orders"));
  see(seen(attached, "orders "));
  const std::string one = "orders";
  EXPECT_EQ(store_->attachments({&one, 1}).size(), 1U);
  EXPECT_EQ(store_->attachments({}).size(), 2U);
}

TEST_P(AttachmentContract, HowFarAQueueHasBeenRead) {
  const EpochMs first = db_now() - Ms{10'000}, second = first + Ms{1000}, third = first + Ms{2000};
  const auto count = [&](std::int64_t ready, std::int64_t consumers, EpochMs at,
                         std::optional<std::int64_t> published = {}) {
    auto one = seen(detached);  // it never was attached
    one.count = {ready, consumers, published};
    one.seen_at = at;
    return see(one)->reading;
  };
  const auto empty = count(0, 2, first);
  EXPECT_EQ(empty, (QueueReading{0, 2, first, {}, {}, first, {}, first}));
  EXPECT_EQ(read_at(*empty, first - Ms{1}), first - Ms{1}) << "no look found it unread";
  EXPECT_EQ(read_at(*empty, first), std::nullopt);
  const auto behind = count(3, 0, second, 7);
  EXPECT_EQ(behind->mark, 7);
  EXPECT_EQ(read_at(*behind, first + Ms{500}), std::nullopt);
  const auto read = count(0, 1, third, 10);
  EXPECT_EQ(read_at(*read, first + Ms{500}), third) << "it was unread a look ago";
  EXPECT_EQ(read_at(*read, first - Ms{1}), first - Ms{1});
  const std::string orders = "orders";
  const auto stored = store_->attachments({&orders, 1});
  ASSERT_EQ(stored.size(), 1U);
  EXPECT_EQ(stored.at(orders).state, unattached);
  EXPECT_EQ(stored.at(orders).reading, read);
  EXPECT_EQ(held_because(&stored.at(orders), first), "");
  EXPECT_THAT(kinds(), IsEmpty());
  // Seen attached for the first time: it always was.
  EXPECT_FALSE(see(seen(attached))->attached_at);
  EXPECT_EQ(store_->attachments({}).at(orders).reading, read);
}

TEST_P(AttachmentContract, TheQueuesOfWhatAwaits) {
  EXPECT_THAT(store_->awaiting_queues(10), IsEmpty());
  for (const char* queue : {"invoices", "orders", "orders", "shipping"}) awaiting(queue);
  due_task("scheduled");
  EXPECT_EQ(store_->awaiting_queues(10), (std::vector<std::string>{"invoices", "orders", "shipping"}));
  EXPECT_EQ(store_->awaiting_queues(2), (std::vector<std::string>{"invoices", "orders"}));
}

TEST_P(AttachmentContract, HeldSilencesAreCountedAndNotFoundAgain) {
  const TaskId held = awaiting("presumed"), other = awaiting("presumed");
  const auto known = store_->awaiting(std::vector{held, TaskId{4711}});
  ASSERT_EQ(known.size(), 1U);
  EXPECT_TRUE(known.at(held).published_at);
  EXPECT_EQ(known.at(held).said, (Silence{Silence::Means::success, Ms{1}}))
      << "as the confirm has written it";
  wait_until_applied(held, event::SilenceOver{"it is detached"});
  if (mysql_) {
    EXPECT_EQ(database().held_silences(), (std::map<std::string, std::int64_t>{{"presumed", 1}}));
  }
  EXPECT_EQ(store_->history(held).at(0).attempt.error, "silence is held open: it is detached");
  EXPECT_EQ(store_->history(held).at(0).attempt.outcome, Outcome::pending);
  const auto due = store_->due(State::awaiting, all_shards(), std::nullopt, db_now() + Ms{60'000}, 100);
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].id, other);
  applied(held, event::Redrive{});
  EXPECT_EQ(store_->history(held).at(0).attempt.outcome, Outcome::timed_out);
}

// S3: a bulk redrives presumed successes, and reported ones only with the word.
TEST_P(AttachmentContract, ABulkRedrivesSuccesses) {
  const TaskId presumed = awaiting("presumed"), reported = awaiting("presumed");
  wait_until_applied(presumed, event::SilenceOver{});
  apply_one(reported, event::Succeeded{1});
  NewBulk asked;
  asked.action = BulkAction::redrive;
  asked.filter.states = {State::succeeded};
  asked.who = "ann";
  const Bulk plain = store_->create_bulk(asked);
  EXPECT_FALSE(plain.even_reported);
  asked.even_reported = true;
  const Bulk bulk = store_->bulk(store_->create_bulk(asked).id).value();
  EXPECT_TRUE(bulk.even_reported);
  const auto verdict = [&](const Bulk& of, TaskId id) {
    const Event event = event_of(of, id);
    return store_->apply({&event, 1}, fence(), decider()).at(0).verdict;
  };
  EXPECT_EQ(verdict(plain, reported), Verdict::refused);
  EXPECT_EQ(verdict(plain, presumed), Verdict::applied);
  EXPECT_EQ(verdict(bulk, reported), Verdict::applied);
  const auto audit = store_->audit(reported);
  ASSERT_FALSE(audit.empty());
  EXPECT_EQ(audit.back().what, "redrive");
  EXPECT_THAT(audit.back().before, HasSubstr("reported"));
}

INSTANTIATE_TEST_SUITE_P(Stores, AttachmentContract, testing::Values("memory", "mysql"));

}  // namespace
}  // namespace rung::test
