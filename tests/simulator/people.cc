#include "tests/simulator/people.h"

#include <utility>

#include "src/bridge/changes/transitions.h"

namespace rung::sim {

People::People(World& world, Judge& judge, const Nodes& nodes)
    : world_(world),
      judge_(judge),
      nodes_(nodes),
      store_(open_memory_store(world.db)),
      dice_(world.settings.seed, "people") {}

void People::start() {
  const Settings& settings = world_.settings;
  const auto plan = [&](Us every, auto act) {
    for (Us at = dice_.between(0, 2 * every); at < settings.active; at += dice_.between(1, 2 * every))
      world_.events.at(at, nullptr, act);
  };
  const Us scale = std::max<Us>(settings.active / kMinute, 1) * kSecond;
  if (settings.has(Actor::people)) plan(scale, [this] { once(); });
  if (settings.has(Actor::bulks)) plan(scale * 10, [this] { bulk(); });
  if (settings.has(Actor::pauses)) plan(scale * 8, [this] { pause(); });
  // Somebody edits the row of a queue's gates by hand.
  if (settings.has(Actor::gates)) plan(scale * 20, [this] { world_.db->damage_gates("edited"); });
}

std::optional<TaskId> People::some_task() {
  const auto& facts = judge_.facts();
  if (facts.empty()) return std::nullopt;
  auto at = facts.begin();
  // Usually one of the newest tasks: older ones have ended.
  const std::uint64_t last = facts.size();
  const std::uint64_t place =
      dice_.one_in(3) ? dice_.below(last) : last - 1 - dice_.below(std::min<std::uint64_t>(last, 12));
  std::advance(at, static_cast<std::ptrdiff_t>(place));
  return at->first;
}

Happening People::draw() {
  switch (dice_.below(8)) {
    case 0:
    case 1:
      return event::Cancel{};
    case 2:
      return event::Reschedule{{}, Ms{dice_.spread(1, 20'000)}};
    case 3:
      return event::Fire{};
    case 4:
      return event::Redrive{};
    case 5:
      return event::Finish{true, {}};
    case 6:
      return event::Finish{false, "seen by a person"};
    default:
      return event::Discard{};
  }
}

void People::once() {
  const auto id = some_task();
  if (!id) return;
  const Happening what = draw();
  judge_.asked(*id, what);
  dice_.one_in(2) ? by_hand(*id, what) : by_bridge(*id, what);
}

void People::by_bridge(TaskId id, const Happening& what) {
  Node* node = some_node(nodes_, dice_);
  if (node == nullptr) return;
  node->bridge().change(
      {{id, what, ByHand{"ann (http)", {}}}}, [this, id, what](const Result<std::vector<Decision>>& answer) {
        if (!answer) return;
        judge_.answered(id, what, answer->front());
        world_.note(judge_.facts().at(id).message, [&] {
          return "a person asked for " + std::string(name_of(what)) + ": " +
                 (answer->front().verdict == Decision::Verdict::applied ? "done" : answer->front().reason);
        });
      });
}

void People::discard(TaskId id) {
  judge_.asked(id, event::Discard{});
  by_hand(id, event::Discard{});
}

// As the command line does it: straight into the database, without a lease.
void People::by_hand(TaskId id, const Happening& what) {
  const Event event{id, what, ByHand{"bob (cli)", {}}};
  const auto done = store_->apply({&event, 1}, Fence{}, decider(world_.rules), nullptr);
  judge_.applied({&event, 1}, *done, Fence{});
  judge_.answered(id, what, done->front());
}

void People::bulk() {
  NewBulk asked;
  const std::uint64_t kind = dice_.below(4);
  asked.action = static_cast<BulkAction>(kind + 1);
  asked.filter.queue = dice_.pick(kQueues);
  asked.filter_text = "queue " + asked.filter.queue;
  asked.who = "ann";
  asked.rate = dice_.one_in(2) ? static_cast<double>(dice_.between(1, 50)) : 0;
  const auto made = store_->create_bulk(asked);
  const auto rows = store_->list([&] {
    Filter filter = of_bulk(asked);
    filter.limit = 100'000;
    return filter;
  }());
  // What it froze; it is done now or later.
  const Bulk& bulk = *made;
  for (const TaskRow& row : *rows) judge_.asked(row.task.id, event_of(bulk, row.task.id).what);
  if (bulk.action != BulkAction::cancel && bulk.action != BulkAction::discard) {
    // Until it is through, each may be moved to "now" at any time.
    for (const TaskRow& row : *rows) judge_.asked(row.task.id, event::Fire{});
  }
  const auto set = [this, id = bulk.id](BulkState state) { (void)store_->set_bulk({id, state}); };
  if (dice_.one_in(2)) {
    world_.events.after(dice_.between(1, 3000) * kMs, nullptr, [set] { set(BulkState::paused); });
    const bool aborts = dice_.one_in(3);
    world_.events.after(dice_.between(3001, 9000) * kMs, nullptr,
                        [set, aborts] { set(aborts ? BulkState::aborted : BulkState::running); });
  }
}

// Ends by itself or is resumed, and in any case when the active time is over.
void People::pause() {
  const std::string queue = dice_.pick(kQueues);
  const Us lasts = std::min(dice_.between(200, 15'000) * kMs, world_.settings.active - world_.events.now());
  std::optional<EpochMs> until;
  if (dice_.one_in(2)) until = world_.db->now() + Ms{lasts / kMs};
  (void)store_->pause({queue, until, "ann", ""});
  judge_.paused(queue);
  world_.events.after(lasts, nullptr, [this, queue] { (void)store_->resume(queue, "ann", ""); });
}

void People::set_unknown() {
  const auto id = some_task();
  if (!id) return;
  const auto row = store_->find(*id);
  if (!*row || (*row)->task.state != State::scheduled || !(*row)->task.next_at) return;
  const Task before = (*row)->task;
  if (*before.next_at - world_.db->now() < Ms{2000}) return;  // it may be claimed just now
  const auto write = [this, id = *id](const std::function<void(Task&)>& change) {
    const Event event{id, event::Fire{}};
    const Decider decide = [&](const Task& task, const Happening&, const Circumstances&) {
      Decision decision{Decision::Verdict::applied, {}, task, {}, false, {}};
      change(decision.task);
      return decision;
    };
    (void)store_->apply({&event, 1}, Fence{}, decide, nullptr);
  };
  write([](Task& task) { task.state = State::unknown; });
  world_.note(judge_.facts().at(*id).message, [] { return std::string("a newer version writes its row"); });
  world_.events.after(dice_.between(100, 20'000) * kMs, nullptr, [write] {
    write([](Task& task) {
      if (task.state == State::unknown) task.state = State::scheduled;
    });
  });
}

}  // namespace rung::sim
