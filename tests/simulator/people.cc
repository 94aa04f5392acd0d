#include "tests/simulator/people.h"

#include <utility>

#include "src/bridge/flight/transitions.h"
#include "tests/simulator/messages.h"

namespace rung::sim {

People::People(World& world, BrokerServer& server, Judge& judge, const Nodes& nodes)
    : world_(world),
      server_(server),
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
  if (settings.has(Actor::copies)) plan(scale * 2, [this] { move_copy(); });
  if (settings.has(Actor::edits)) plan(scale * 2, [this] { edit(); });
  if (settings.has(Actor::canary)) plan(scale * 10, [this] { redrive_carefully(); });
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
  change(*id, draw());
}

void People::change(TaskId id, const Happening& what) {
  judge_.asked(id, what);
  dice_.one_in(2) ? by_hand(id, what) : by_bridge(id, what);
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
  judge_.applied({&event, 1}, done, Fence{});
  judge_.answered(id, what, done.front());
}

void People::bulk() {
  NewBulk asked;
  const std::uint64_t kind = dice_.below(4);
  asked.action = static_cast<BulkAction>(kind + 1);
  asked.filter.queue = dice_.pick(kQueues);
  asked.filter_text = "queue " + asked.filter.queue;
  asked.who = "ann";
  asked.rate = dice_.one_in(2) ? static_cast<double>(dice_.between(1, 50)) : 0;
  const Bulk bulk = begin(asked);
  const auto set = [this, id = bulk.id](BulkState state) { store_->set_bulk({id, state}); };
  if (dice_.one_in(2)) {
    world_.events.after(dice_.between(1, 3000) * kMs, nullptr, [set] { set(BulkState::paused); });
    const bool aborts = dice_.one_in(3);
    world_.events.after(dice_.between(3001, 9000) * kMs, nullptr,
                        [set, aborts] { set(aborts ? BulkState::aborted : BulkState::running); });
  }
}

Bulk People::begin(const NewBulk& asked) {
  const Bulk bulk = store_->create_bulk(asked);
  const auto rows = store_->list([&] {
    Filter filter = of_bulk(asked);
    filter.limit = 100'000;
    return filter;
  }());
  // What it froze; it is done now or later.
  for (const TaskRow& row : rows) judge_.asked(row.task.id, event_of(bulk, row.task.id).what);
  if (bulk.action != BulkAction::cancel && bulk.action != BulkAction::discard) {
    // Until it is through, each may be moved to "now" at any time.
    for (const TaskRow& row : rows) judge_.asked(row.task.id, event::Fire{});
  }
  return bulk;
}

// Sometimes the queue is paused, and what was to be sent first is cancelled before it is sent.
void People::redrive_carefully() {
  NewBulk asked;
  asked.action = BulkAction::redrive;
  asked.filter.queue = dice_.pick(kQueues);
  asked.who = "ann";
  asked.rate = static_cast<double>(dice_.between(2, 40));
  asked.care.canary = dice_.between(0, 5);
  asked.care.ramp = asked.care.canary == 0 || dice_.one_in(2);
  if (dice_.one_in(2)) asked.care.watch = Ms{dice_.between(1000, 8000)};
  const bool withdrawn = dice_.one_in(3);
  if (withdrawn) pause(asked.filter.queue, 6 * kSecond);
  world_.events.after(2 * kSecond, nullptr, [this, asked, withdrawn] {
    const std::int64_t bulk = begin(asked).id;
    judge_.redrives(bulk, asked.care);
    if (!withdrawn) return;
    world_.events.after(2 * kSecond, nullptr, [this, bulk] {
      for (const TaskId id : judge_.canary_of(bulk)) change(id, event::Cancel{});
    });
  });
}

void People::edit() {
  const auto& facts = judge_.facts();
  std::vector<TaskId> parked;
  for (const auto& [id, known] : facts) {
    if (known.state == State::parked) parked.push_back(id);
  }
  if (parked.empty()) return;
  const TaskId id = dice_.pick(parked);
  auto edited = std::make_shared<EditedMessage>();
  edited->id = ids_.next(world_.db->now());
  auto message = std::make_shared<Message>(*store_->messages({&id, 1}).front().message);
  message->body = body_of(facts.at(id).message) + ", edited as " + edited->id.str();
  edited->message = std::move(message);
  edited->origin_json = edited->before = edited->after = "{}";  // for people, who are not here
  change(id, event::Edit{std::move(edited)});
}

// By a shovel, or in the management UI: to its queue, to another, or to rung.failed.
void People::move_copy() {
  std::deque<Copy>& parked = server_.queues()["rung.parked"].ready;
  if (parked.empty() || server_.is_away()) return;
  const Message copy = std::move(parked.front().message);
  parked.pop_front();
  std::string queue = text_header(copy, header::kQueue);
  const bool fails = dice_.one_in(4);
  if (fails) judge_.failed(copy, queue, {}, false);
  if (!fails && dice_.one_in(3)) queue = dice_.pick(kQueues);
  world_.note(number_of(copy),
              [&] { return "its parked copy is moved to " + (fails ? "rung.failed" : queue); });
  server_.put(fails ? "rung.failed" : "", queue, copy);
}

// Ends by itself or is resumed, and in any case when the active time is over.
void People::pause() {
  const std::string queue = dice_.pick(kQueues);
  pause(queue, dice_.between(200, 15'000) * kMs);
}

void People::pause(const std::string& queue, Us lasts) {
  lasts = std::min(lasts, world_.settings.active - world_.events.now());
  std::optional<EpochMs> until;
  if (dice_.one_in(2)) until = world_.db->now() + Ms{lasts / kMs};
  store_->pause({queue, until, "ann", ""});
  judge_.paused(queue);
  world_.events.after(lasts, nullptr, [this, queue] { store_->resume(queue, "ann", ""); });
}

void People::set_unknown() {
  const auto id = some_task();
  if (!id) return;
  const auto row = store_->find(*id);
  if (!row || row->task.state != State::scheduled || !row->task.next_at) return;
  const Task before = row->task;
  if (*before.next_at - world_.db->now() < Ms{2000}) return;  // it may be claimed just now
  const auto write = [this, id = *id](const std::function<void(Task&)>& change) {
    const Event event{id, event::Fire{}};
    const Decider decide = [&](const Task& task, const Happening&, const Circumstances&) {
      Decision decision{Decision::Verdict::applied, {}, task, {}, false, {}};
      change(decision.task);
      return decision;
    };
    store_->apply({&event, 1}, Fence{}, decide, nullptr);
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
