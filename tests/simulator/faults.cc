#include "tests/simulator/faults.h"

#include <algorithm>
#include <utility>

namespace rung::sim {

Faults::Faults(World& world, BrokerServer& server, Judge& judge, Nodes& nodes, People& people)
    : world_(world), server_(server), judge_(judge), nodes_(nodes), people_(people) {
  server_.on_alarm = [this] {
    for (const Nodes* some : {&nodes_, &twins_}) {
      for (const auto& node : *some) {
        if (!node->alive()) continue;
        world_.events.after(0, node->process(), [&broker = node->broker()] { broker.alarm(); });
      }
    }
  };
}

void Faults::start() {
  const Settings& settings = world_.settings;
  if (settings.faults.empty()) return;
  std::vector<Fault> kinds(settings.faults.begin(), settings.faults.end());
  for (const Fault fault : {Fault::detach, Fault::idle}) {
    if (std::erase(kinds, fault) > 0) plan(fault);
  }
  if (kinds.empty()) return;
  const auto count = static_cast<std::uint64_t>(static_cast<double>(settings.active / kSecond) / 10 *
                                                settings.trouble * static_cast<double>(kinds.size()) / 4) +
                     1;
  for (std::uint64_t i = 0; i < count; ++i) {
    Rng dice(settings.seed, "fault", i);
    const Us at = dice.between(2 * kSecond, std::max(settings.active - 2 * kSecond, 3 * kSecond));
    // Drawn from all kinds, so that disabling one does not change the others.
    const auto fault = static_cast<Fault>(dice.below(kTroubles));
    if (!settings.has(fault)) {
      const Fault other = dice.pick(kinds);
      if (other == Fault::dead_queue) continue;
      world_.events.at(at, nullptr, [this, other, dice] { happen(other, dice); });
      continue;
    }
    world_.events.at(at, nullptr, [this, fault, dice] { happen(fault, dice); });
  }
}

// Not among the troubles: nothing that is promised depends on it. Long enough for silence to end meanwhile.
void Faults::plan(Fault fault) {
  Rng dice(world_.settings.seed, fault == Fault::detach ? "detaching" : "idling");
  for (std::uint64_t i = 1 + dice.below(3); i > 0; --i) {
    const std::string queue = dice.pick(kQueues);
    const Us from = dice.between(0, world_.settings.active * 3 / 4);
    const Us until = std::min(from + dice.spread(1000, 120'000) * kMs, world_.settings.active);
    const auto set = [this, queue, fault](bool yes) {
      fault == Fault::detach ? server_.detach(queue, yes) : server_.idle(queue, yes);
    };
    world_.events.at(from, nullptr, [set] { set(true); });
    world_.events.at(until, nullptr, [set] { set(false); });
  }
}

void Faults::undo_after(Us length, const std::function<void()>& undo) {
  const Us now = world_.events.now();
  const Us until = std::max(std::min(now + length, world_.settings.active), now);
  world_.troubles.add(now, until);
  world_.events.at(until, nullptr, undo);
}

void Faults::happen(Fault fault, Rng dice) {
  world_.events.mix(word_of(fault));
  world_.note(0, [&] { return std::string("fault: ") + word_of(fault); });
  world_.troubles.add(world_.events.now(), world_.events.now());
  switch (fault) {
    case Fault::kill:
    case Fault::pause:
    case Fault::twin:
    case Fault::drain:
    case Fault::cut:
    case Fault::slow:
      return to_a_node(fault, dice);
    case Fault::silent:
    case Fault::dead_queue:
    case Fault::full:
    case Fault::missing:
    case Fault::blocked:
    case Fault::broker_away:
      return to_the_broker(fault, dice);
    default:
      return to_the_store(fault, dice);
  }
}

void Faults::slow_down(Node& node, Us by, Us length) {
  const Us notice_after = world_.settings.heartbeat.count() * kMs * 5 / 2;
  for (const LinkPtr& link : server_.links_of(node.process())) {
    link->slow += by;
    undo_after(length, [link, by] { link->slow -= by; });
    // None of its heartbeats arrives in time.
    if (by > notice_after) world_.events.after(notice_after, nullptr, [this, link] { server_.cut(link, 0); });
  }
}

void Faults::twin(Node& node, Us length) {
  const int number = 100 + static_cast<int>(twins_.size());
  twins_.push_back(std::make_unique<Node>(world_, server_, judge_, node.name(), number));
  Node& second = *twins_.back();
  second.start();
  undo_after(length, [this, &second, &node] {
    second.kill(false);
    world_.events.after(10 * kMs, nullptr, [&node] { node.start(); });
  });
}

void Faults::to_a_node(Fault fault, Rng& dice) {
  Node& node = *nodes_[static_cast<std::size_t>(dice.below(nodes_.size()))];
  const Us heartbeat = world_.settings.heartbeat.count() * kMs;
  if (!node.alive()) return;
  if (fault == Fault::kill) {
    if (dice.one_in(3)) slow_down(node, dice.between(100 * kMs, heartbeat * 19 / 10), heartbeat * 3);
    const int steps = static_cast<int>(dice.spread(1, 150));
    node.after_steps(steps, [&node, half_open = dice.one_in(2)] { node.kill(half_open); });
    return undo_after(dice.spread(10, 40'000) * kMs, [&node] {
      node.after_steps(0, {});
      node.start();
    });
  }
  if (fault == Fault::pause) {
    const Us length = std::min(dice.spread(20, 45'000) * kMs, world_.settings.active - world_.events.now());
    node.pause(std::max(length, kMs));
    return undo_after(length, [] {});
  }
  if (fault == Fault::twin) return twin(node, dice.spread(500, 30'000) * kMs);
  if (fault == Fault::drain) {
    const Us away = dice.spread(1, 10'000) * kMs;
    // Not at any time: while the answer of the database, or of the broker, is on its way.
    return node.after_steps(static_cast<int>(dice.spread(1, 150)), [this, &node, away] {
      node.drain([this, &node, away] { world_.events.after(away, nullptr, [&node] { node.start(); }); });
    });
  }
  const auto links = server_.links_of(node.process());
  if (links.empty()) return;
  if (fault == Fault::cut) {
    server_.cut(dice.pick(links), dice.one_in(3) ? dice.between(kMs, heartbeat * 2) : dice.between(20, 900));
    return undo_after(heartbeat * 2, [] {});
  }
  slow_down(node, dice.spread(1, heartbeat * 3 / kMs) * kMs, dice.spread(100, 20'000) * kMs);
}

void Faults::to_the_broker(Fault fault, Rng& dice) {
  const std::string queue = dice.pick(kQueues);
  const Us length = dice.spread(100, 40'000) * kMs;
  switch (fault) {
    case Fault::silent:
      server_.silence(queue, true);
      return undo_after(length, [this, queue] { server_.silence(queue, false); });
    case Fault::dead_queue:
      if (!dead_queue_.empty()) return;
      dead_queue_ = "stuck";
      server_.silence(dead_queue_, true);
      world_.troubles.add(world_.events.now(), INT64_MAX);
      return;
    case Fault::full:
      ++server_.queues()[queue].full;
      return undo_after(length, [this, queue] { --server_.queues()[queue].full; });
    case Fault::missing:
      server_.queues()[queue].exists = false;
      return undo_after(length, [this, queue] { server_.queues()[queue].exists = true; });
    case Fault::blocked:
      server_.block(true);
      return undo_after(length, [this] { server_.block(false); });
    default:
      server_.go_away(true);
      return undo_after(length, [this] { server_.go_away(false); });
  }
}

void Faults::to_the_store(Fault fault, Rng& dice) {
  const Us length = dice.spread(50, 30'000) * kMs;
  if (fault == Fault::clock_step) {
    const Us by = dice.spread(20, 20'000) * kMs * (dice.one_in(2) ? 1 : -1);
    world_.wall->step(by);
    judge_.stepped(by);
    return undo_after(kMinute, [] {});
  }
  if (fault == Fault::upgrade) {
    people_.set_unknown();
    return undo_after(20 * kSecond, [] {});
  }
  // For one of them, or for all.
  std::vector<DbTrouble*> troubles;
  const bool one = dice.one_in(2);
  const std::size_t which = static_cast<std::size_t>(dice.below(nodes_.size()));
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!one || i == which) troubles.push_back(&nodes_[i]->trouble());
  }
  const double often = dice.one_in(3) ? 0.6 : 0.1;
  const auto change = [troubles, fault, often](int sign) {
    for (DbTrouble* trouble : troubles) {
      if (fault == Fault::store_fail) trouble->fail = sign > 0 ? often : 0;
      if (fault == Fault::store_lose) trouble->lose = sign > 0 ? often : 0;
      if (fault == Fault::store_stall) trouble->stall = sign > 0 ? often : 0;
      if (fault == Fault::store_away) trouble->away += sign;
    }
  };
  change(1);
  undo_after(length, [change] { change(-1); });
}

void Faults::end() {
  const Us now = world_.events.now();
  world_.troubles.add(now, now);
  for (const auto& second : twins_) second->kill(false);
  for (const auto& node : nodes_) {
    node->trouble() = {};
    node->after_steps(0, {});
    node->start();
    // A node whose name a twin took notices that only at its next beat.
    for (const Us later : {kSecond, 8 * kSecond, 20 * kSecond})
      world_.events.after(later, nullptr, [&node] { node->start(); });
  }
}

}  // namespace rung::sim
