#include "tests/simulator/faulty_store.h"

#include <algorithm>

namespace rung::sim {
namespace {

constexpr Us kTimeout = 10 * kSecond;  // StoreOptions::timeout
constexpr std::int64_t kBytesInUs = 50;

}  // namespace

FaultyStore::FaultyStore(Deps deps) : MemoryStore(deps.world.db), deps_(std::move(deps)) {}

FaultyStore::Plan FaultyStore::draw() {
  Rng& dice = deps_.dice;
  const DbTrouble& trouble = deps_.trouble;
  Plan plan;
  plan.there = dice.between(40, 400);
  plan.back = dice.between(40, 400);
  plan.away = trouble.away > 0;
  if (plan.away) plan.there = dice.between(100, 2000);
  if (trouble.fail > 0 && dice.chance(trouble.fail)) {
    plan.fails = true;
    plan.refused = dice.one_in(10);
  }
  if (trouble.lose > 0 && dice.chance(trouble.lose)) plan.answer_lost = true;
  if (trouble.stall > 0 && dice.chance(trouble.stall))
    (dice.one_in(2) ? plan.there : plan.back) += dice.between(50, 20'000) * kMs;
  return plan;
}

void FaultyStore::travel(Us time, bool server) {
  const auto attempt = attempt_.lock();
  Events& events = deps_.world.events;
  if (attempt->abandoned) throw Fiber::Cancelled{};
  attempt->in_server = server;
  const std::uint64_t call = ++attempt->calls;
  if (time > kTimeout) {
    events.after(kTimeout, deps_.process, [attempt, call, timed_out = deps_.timed_out] {
      if (!attempt->abandoned && attempt->calls == call) timed_out(attempt);
    });
    if (!server) return attempt->fiber->wait();  // the client no longer waits for the answer
  }
  events.after(time, server ? nullptr : deps_.process, [attempt] { attempt->go(); });
  attempt->fiber->wait();
}

std::optional<Error> FaultyStore::arrive() {
  if (plan_.away || deps_.trouble.away > 0) return Error{Error::Kind::transient, "the database is away"};
  if (!plan_.fails) return std::nullopt;
  if (plan_.refused) return Error{Error::Kind::refused, "the database refuses: a right is missing"};
  return Error{Error::Kind::transient, "deadlock: rolled back"};
}

void FaultyStore::before_call() {
  if (in_call_) return;
  plan_ = draw();
  travel(plan_.there, true);
  if (auto error = arrive()) {
    travel(plan_.back, false);
    throw StoreError(*std::move(error));
  }
}

void FaultyStore::after_call() {
  if (in_call_) return;
  if (deps_.step) deps_.step();
  travel(plan_.back, false);
  if (plan_.answer_lost) throw StoreError({Error::Kind::transient, "the database's answer was lost"});
}

template <typename F>
auto FaultyStore::call(F body) -> decltype(body()) {
  before_call();
  in_call_ = true;
  auto out = result_of(body);
  in_call_ = false;
  after_call();
  return or_throw(std::move(out));
}

EpochUs FaultyStore::clock() {
  return call([&] { return EpochUs{deps_.world.wall->us()}; });
}

std::vector<Inserted> FaultyStore::insert(std::span<const NewTask> tasks, const Fence& fence) {
  return call([&] {
    auto answers = MemoryStore::insert(tasks, fence);
    deps_.watcher.inserted(tasks, answers, fence);
    return answers;
  });
}

std::vector<Decision> FaultyStore::apply(std::span<const Event> events, const Fence& fence,
                                         const Decider& decide, const BulkStep* step) {
  return call([&] {
    auto decisions = MemoryStore::apply(events, fence, decide, step);
    deps_.watcher.applied(events, decisions, fence);
    return decisions;
  });
}

Claimed FaultyStore::claim(std::span<const Event> claims, const Fence& fence, const Decider& decide,
                           std::size_t most_bytes) {
  return call([&] {
    auto claimed = MemoryStore::claim(claims, fence, decide, most_bytes);
    deps_.watcher.applied(claims, claimed.decisions, fence);
    // Megabytes take their time.
    for (std::size_t i = 0, left = claimed.messages.size(); i < claimed.decisions.size() && left > 0; ++i) {
      if (claimed.decisions[i].verdict != Decision::Verdict::applied) continue;
      plan_.back += claimed.decisions[i].task.body_bytes / kBytesInUs;
      --left;
    }
    return claimed;
  });
}

void FaultyStore::write_claims(std::span<const TaskId> ids) {
  call([&] { MemoryStore::write_claims(ids); });
}

}  // namespace rung::sim
