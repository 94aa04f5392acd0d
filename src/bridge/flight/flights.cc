#include "src/bridge/flight/flights.h"

#include <utility>

#include "src/bridge/flight/transitions.h"
#include "src/bridge/leases/shards.h"

namespace rung::bridge {
namespace {

constexpr std::size_t place_of(Flight::Stage stage) { return static_cast<std::size_t>(stage); }

constexpr bool may_follow(Flight::Stage stage, Flight::Stage next) {
  using enum Flight::Stage;
  switch (stage) {
    case gone:
      return next == waiting;
    case waiting:
      return next == waiting || next == claiming || next == gone;
    case claiming:
      return next == unread || next == reading || next == gone;
    case unread:
      return next == reading || next == gone;
    case reading:
      return next == held || next == sent || next == recording || next == gone;
    case held:
      return next == sent || next == recording || next == gone;
    case sent:
      return next == recording;
    case recording:
      return next == gone;
  }
  return false;
}

constexpr bool uses_shard(Flight::Stage stage) { return stage >= Flight::Stage::claiming; }
constexpr bool is_under_way(Flight::Stage stage) {
  return uses_shard(stage) && stage != Flight::Stage::recording;
}
constexpr bool has_message(Flight::Stage stage) {
  return stage == Flight::Stage::held || stage == Flight::Stage::sent;
}

}  // namespace

Flights::Table::iterator Flights::at(TaskId id, Stage stage) {
  const auto it = flights_.find(id);
  RUNG_REQUIRE(it != flights_.end() && it->second.stage == stage);
  return it;
}

void Flights::move(Flight& flight, Stage to) {
  const Stage from = std::exchange(flight.stage, to);
  RUNG_REQUIRE(may_follow(from, to));
  if (from != Stage::gone) --stages_[place_of(from)];
  if (to != Stage::gone) ++stages_[place_of(to)];
  if (uses_shard(to) && !uses_shard(from)) sidecar_.shards.begin_use(flight.shard);
  if (uses_shard(from) && !uses_shard(to)) sidecar_.shards.end_use(flight.shard);
  if (has_message(to) && !has_message(from)) bytes_ += flight.claim->bytes;
  if (has_message(from) && !has_message(to)) bytes_ -= flight.claim->bytes;
  if (is_under_way(to) == is_under_way(from)) return;
  if (is_under_way(to)) {
    ++under_way_;
    flight.lane = targets_.begin(flight.queue);
  } else {
    --under_way_;
    targets_.end(flight.queue);
  }
}

void Flights::remove(Table::iterator it) {
  const TaskId id = it->first;
  const bool was_claimed = it->second.stage >= Stage::claiming;
  move(it->second, Stage::gone);
  flights_.erase(it);
  RUNG_REQUIRE(!flights_.empty() || (under_way_ == 0 && bytes_ == 0));
  if (was_claimed) sidecar_.transitions.published(id);
}

void Flights::add(const io::DueItem& item, bool again) {
  Flight& flight = flights_[item.id];
  move(flight, Stage::waiting);
  flight.queue = item.queue;
  flight.shard = static_cast<std::int16_t>(item.shard);
  flight.again = again;
}

bool Flights::begin_claim(const io::DueItem& item) {
  const auto it = flights_.find(item.id);
  if (it == flights_.end() || !waits(it->second, item)) return false;
  const bool ours = sidecar_.shards.held(item.shard);
  if (ours) {
    move(it->second, Stage::claiming);
  } else {
    remove(it);  // its owner's heap or sweep has it
  }
  return ours;
}

Flight& Flights::claimed(TaskId id, Decision&& decision, std::size_t bytes, bool reads) {
  Flight& flight = at(id, Stage::claiming)->second;
  RUNG_REQUIRE(decision.verdict == Decision::Verdict::applied && decision.task.id == id);
  if (flight.shard != decision.task.shard) {  // a change of the task has moved it while it waited here
    sidecar_.shards.end_use(std::exchange(flight.shard, static_cast<std::int16_t>(decision.task.shard)));
    sidecar_.shards.begin_use(flight.shard);
  }
  flight.claim = std::make_unique<Claim>(
      Claim{std::make_shared<const Task>(std::move(decision.task)), bytes, decision.claimed_again, nullptr});
  move(flight, reads ? Stage::reading : Stage::unread);
  return flight;
}

void Flights::hold(Flight& flight, MessagePtr message) {
  RUNG_REQUIRE(message != nullptr);
  move(flight, Stage::held);
  flight.claim->message = std::move(message);
}

void Flights::send(Flight& flight, BootMs now) {
  move(flight, Stage::sent);
  flight.claim->message.reset();  // the broker gets it
  targets_.sent(flight.queue, now);
}

void Flights::answered(Flight& flight, PublishResult::How how, BootMs now) {
  RUNG_REQUIRE(flight.stage == Stage::sent);
  targets_.answered(flight.queue, how, now);
  move(flight, Stage::recording);
}

void Flights::unsendable(Flight& flight) {
  RUNG_REQUIRE(flight.stage != Stage::sent);
  move(flight, Stage::recording);
  flight.claim->message.reset();
}

void Flights::release(const Flight& flight) {
  RUNG_REQUIRE(flight.stage >= Stage::unread && flight.stage < Stage::sent);
  remove(at(flight.claim->task->id, flight.stage));
}

void Flights::end(TaskId id) { remove(at(id, Stage::recording)); }

void Flights::drop(TaskId id) {
  const auto it = flights_.find(id);
  if (it != flights_.end() && it->second.stage < Stage::claiming) remove(it);
}

void Flights::drop_unclaimed() {
  for (auto it = flights_.begin(); it != flights_.end();) {
    const auto here = it++;
    if (here->second.stage < Stage::claiming) remove(here);
  }
}

}  // namespace rung::bridge
