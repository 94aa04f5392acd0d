#include "tests/simulator/node.h"

#include <algorithm>
#include <utility>

namespace rung::sim {
namespace {

constexpr Us kDrain = 12 * kSecond;  // after it the shards are given back as they are (run.cc)
constexpr Us kGiveBack = 3 * kSecond;

}  // namespace

Node::Life::Life(Node& node, Us offset)
    : clock(node.world_.events, offset), loop(node.world_, process, clock, Rng(node.dice_.next())) {}

Node::Node(World& world, BrokerServer& server, Watcher& watcher, std::string name, int number)
    : world_(world),
      server_(server),
      watcher_(watcher),
      name_(std::move(name)),
      dice_(world.settings.seed, "node", static_cast<std::uint64_t>(number)) {}

Node::~Node() {
  if (life_) kill(false);
}

bridge::BridgeSettings Node::settings_of_bridge() {
  bridge::BridgeSettings settings;
  settings.identity = {name_, "0", "here", dice_.next()};
  settings.lease = world_.settings.lease;
  settings.window = world_.settings.window;
  settings.max_loaded = world_.settings.max_loaded;
  settings.heartbeat = world_.settings.heartbeat;
  settings.max_unconfirmed = world_.settings.max_unconfirmed;
  settings.require_token = world_.settings.require_token;
  return settings;
}

void Node::start() {
  if (life_) return;
  world_.events.mix("start");
  world_.events.mix(name_);
  draining_ = false;
  steps_left_ = 0;
  life_ = std::make_unique<Life>(*this, dice_.between(1, 1'000'000) * kSecond + dice_.between(0, 999'999));
  Life& life = *life_;
  const auto step = [this, process = life.process] {
    if (!process->dead) this->step();
  };
  life.broker = std::make_unique<SimBroker>(
      SimBroker::Deps{world_, server_, watcher_, life.process, life.clock, name_, Rng(dice_.next()), step});
  const auto jobs = [this, &life, step](bridge::StoreJobs::OnStatus on_status) {
    auto made = std::make_unique<SimJobs>(
        SimJobs::Deps{world_, life.process, life.loop, trouble_, watcher_, Rng(dice_.next()), step},
        std::move(on_status));
    life.jobs = made.get();
    return made;
  };
  const auto name_taken = [this, process = life.process] {
    // Its own frames are on the stack: it ends in an event of its own.
    world_.events.after(0, nullptr, [this, process] {
      if (!process->dead) kill(false);
    });
  };
  life.bridge = std::make_unique<bridge::Bridge>(life.loop, *life.broker, jobs, settings_of_bridge(),
                                                 world_.rules, name_taken);
  life.bridge->set_config("simulated");  // without one it counts as an older release
  if (world_.settings.has(Fault::detach) || world_.settings.has(Fault::idle)) watch_attachments();
  (void)life.bridge->start();
}

// What src/sidecar/attach.h does: looks now and then, and when asked. What is asked for while a look
// is under way is answered by the next one.
void Node::watch_attachments() {
  life_->bridge->on_connected([this] { look_at_attachments(); });
  const ProcessPtr process = life_->process;
  const auto again = std::make_shared<std::function<void()>>();
  *again = [this, process, weak = std::weak_ptr(again)] {
    if (process->dead) return;
    look_at_attachments();
    if (const auto next = weak.lock()) world_.events.after(kMinute, process, [next] { (*next)(); });
  };
  (*again)();
}

void Node::look_at_attachments() {
  if (std::exchange(life_->looking, true)) {
    life_->look_again = true;
    return;
  }
  const ProcessPtr process = life_->process;
  const BootMs asked_at = life_->clock.boot();
  const bridge::WatchedQueues watched = life_->bridge->queues_to_watch();
  world_.events.after(dice_.between(1, 300) * kMs, process, [this, process, asked_at, watched] {
    if (process->dead) return;
    life_->looking = false;
    bridge::AttachmentLook look;
    look.asked_at = asked_at;
    look.attached.emplace();
    for (const std::string& name : kQueues) {
      const BrokerServer::Queue* queue = server_.queue(name);
      const bool exists = queue == nullptr || queue->exists;
      const bool attached = queue == nullptr || queue->detached == 0;
      const auto state = !exists    ? AttachmentState::gone
                         : attached ? AttachmentState::attached
                                    : AttachmentState::detached;
      if (state == AttachmentState::attached) look.attached->insert(name);
      if (std::ranges::find(watched.names, name) == watched.names.end()) continue;
      look.queues.push_back({name, state, attached ? "" : "its dead letters go nowhere", "", ""});
      if (exists && queue != nullptr && queue->silent == 0 && watched.awaiting.contains(name))
        look.queues.back().count = {{std::ssize(queue->ready), queue->idle > 0 ? 0 : 1, queue->published}};
    }
    life_->bridge->attachments_found(look);
    const bool soon = std::exchange(life_->look_again, false);
    if (soon) look_at_attachments();
  });
}

void Node::step() {
  if (steps_left_ == 0 || --steps_left_ > 0) return;
  world_.events.after(0, nullptr, [this, process = life_->process] {
    if (!process->dead) then_();
  });
}

void Node::after_steps(int steps, std::function<void()> what) {
  if (!life_) return;
  steps_left_ = steps;
  then_ = std::move(what);
}

void Node::kill(bool half_open) {
  if (!life_) return;
  world_.events.mix("kill");
  world_.events.mix(name_);
  const std::unique_ptr<Life> life = std::move(life_);
  life->process->dead = true;
  life->process->piled.clear();
  life->jobs->kill();
  const Us heartbeat = world_.settings.heartbeat.count() * kMs;
  for (const LinkPtr& link : server_.links_of(life->process)) {
    const Us after = half_open ? dice_.between(heartbeat * 2, heartbeat * 29 / 10) : dice_.between(10, 5000);
    world_.events.after(after, nullptr, [&server = server_, link] { server.close(link); });
  }
  world_.note(0, [&] { return name_ + " is killed" + (half_open ? ", and the broker not told" : ""); });
}

void Node::pause(Us length) {
  if (!life_ || life_->process->paused) return;
  world_.events.mix("pause");
  world_.note(0, [&] { return name_ + " is paused for " + std::to_string(length / kMs) + " ms"; });
  const ProcessPtr process = life_->process;
  process->paused = true;
  // The broker closes a connection that is silent for two heartbeats.
  const Us notice_after = world_.settings.heartbeat.count() * kMs * 2 + dice_.between(0, kSecond);
  if (length > notice_after) {
    for (const LinkPtr& link : server_.links_of(process)) {
      world_.events.after(notice_after, nullptr, [&server = server_, link] { server.cut(link, 0); });
    }
  }
  world_.events.after(length, nullptr, [this, process, length] {
    if (process->dead) return;
    process->paused = false;
    life_->broker->stood_still(length);
    world_.events.resume(process);
  });
}

void Node::drain(std::function<void()> ended) {
  if (!life_ || draining_) return;
  draining_ = true;
  world_.note(0, [&] { return name_ + " drains"; });
  const ProcessPtr process = life_->process;
  auto end = [this, process, ended = std::move(ended)] {
    world_.events.after(0, nullptr, [this, process, ended] {
      if (process->dead) return;
      world_.note(0, [&] { return name_ + " has ended"; });
      kill(false);
      ended();
    });
  };
  life_->bridge->drain(end);
  world_.events.after(kDrain, process, [this, end] { life_->bridge->give_back(end); });
  world_.events.after(kDrain + kGiveBack, process, end);
}

std::string Node::state() const {
  if (!life_) return name_ + ": dead";
  const bridge::Vitals vitals = life_->bridge->vitals();
  std::string out =
      name_ + ": " + std::to_string(vitals.shards) + " shards, " + std::to_string(vitals.ready) + " ready, " +
      std::to_string(vitals.loaded) + " loaded, " + std::to_string(vitals.unconfirmed) +
      " unconfirmed, window " + std::to_string(vitals.targets.window) + ", " +
      std::to_string(vitals.targets.quarantined) + " in quarantine, the broker " +
      (vitals.broker_publishing ? "takes" : "does not take") + " publishes" +
      (vitals.broker_blocked ? ", blocked" : "") + ", the database is " +
      (vitals.database ? "there" : "away") + ", " + life_->jobs->state() + "; " + life_->broker->state();
  for (const HealthProblem& problem : vitals.problems) out += "; " + problem.name + ": " + problem.detail;
  return out;
}

}  // namespace rung::sim
