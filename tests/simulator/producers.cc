#include "tests/simulator/producers.h"

#include <algorithm>
#include <utility>

#include "plugin/rabbitmq/wire/broker_headers.h"
#include "src/core/machine/by_hand.h"
#include "src/core/message/identity.h"
#include "tests/simulator/messages.h"

namespace rung::sim {

Node* some_node(const Nodes& nodes, Rng& dice) {
  const std::size_t first = static_cast<std::size_t>(dice.below(nodes.size()));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node& node = *nodes[(first + i) % nodes.size()];
    if (node.serves()) return &node;
  }
  return nullptr;
}

void Producers::start() {
  const Settings& settings = world_.settings;
  last_ = settings.messages;
  settings.keep > 0 ? plan_minute() : plan(1, settings.messages, 0, settings.active);
}

void Producers::plan_minute() {
  const Settings& settings = world_.settings;
  const Us from = world_.events.now(), until = std::min(from + kMinute, settings.active);
  const auto before = [&](Us at) {
    return static_cast<int>(static_cast<double>(settings.messages) * static_cast<double>(at) /
                            static_cast<double>(settings.active));
  };
  plan(before(from) + 1, before(until), from, until - from);
  if (until < settings.active) world_.events.at(until, nullptr, [this] { plan_minute(); });
}

void Producers::plan(int first, int last, Us from, Us length) {
  // Some come at once, most one by one.
  for (int number = first; number <= last; ++number) {
    Rng dice(world_.settings.seed, "message", static_cast<std::uint64_t>(number));
    Us at = dice.between(0, length);
    if (dice.one_in(3)) at = at / (10 * kSecond) * (10 * kSecond);
    at += from;
    world_.events.at(at, nullptr, [this, number, dice]() mutable {
      const std::uint64_t kind = dice.below(6);
      const Settings& settings = world_.settings;
      if (kind == 0 && settings.has(Actor::delays)) return delay(number, dice);
      if (kind == 1 && settings.has(Actor::submits)) {
        const std::string& queue = dice.pick(kQueues);
        const std::int64_t bytes = settings.has(Actor::big) && dice.one_in(2) ? 7'000'000 : 20;
        return submit(number, queue, Ms{dice.spread(1, 30'000)}, bytes, 0);
      }
      if (kind <= 3) return fail(number, dice);
      report(number, dice);
    });
  }
}

Message Producers::message(int number, bool has_id) {
  Message message{{}, Table{}, body_of(number)};
  if (has_id) message.properties.message_id = "id-" + std::to_string(number);
  judge_.entry(number).has_id = has_id;
  return message;
}

std::int64_t Producers::first_delay(const std::string& queue) const {
  return world_.rules->ladder(world_.rules->queue(queue).ladder)->delay(1).count() * kMs;
}

// `delay_us`: its first delivery is not sooner; kNever = it parks.
void Producers::put(int number, const std::string& exchange, const std::string& key, const Message& message,
                    std::int64_t delay_us) {
  const std::int64_t now = judge_.reading();
  judge_.entry(number).due_us = delay_us == kNever ? kNever : now + delay_us;
  if (server_.is_away()) {  // its producer tries again
    world_.events.after(kSecond, nullptr, [this, number, exchange, key, message, delay_us] {
      put(number, exchange, key, message, delay_us);
    });
    return;
  }
  world_.note(number, [&] { return "accepted by " + exchange + " for " + key; });
  judge_.accepted(number);
  server_.put(exchange, key, message);
}

// A consumer had the original, and rejects it.
void Producers::fail(int number, Rng dice) {
  const std::string& queue = dice.pick(kQueues);
  if (server_.is_away()) {
    world_.events.after(kSecond, nullptr, [this, number, dice] { fail(number, dice); });
    return;
  }
  const bool by_exchange = dice.one_in(3);
  Copy copy{message(number, !dice.one_in(6)), by_exchange ? "shop" : "", by_exchange ? "order.new" : queue};
  const std::int64_t now = judge_.reading();
  judge_.entry(number).due_us = now + first_delay(queue);
  world_.note(number, [&] { return "rejected in " + queue; });
  // Dropped if the queue is not attached: Rung never hears of it.
  if (server_.reject(queue, std::move(copy))) judge_.accepted(number);
}

void Producers::report(int number, Rng dice) {
  const std::string queue = dice.pick(kQueues);
  Message failed = message(number, !dice.one_in(6));
  failed.headers->emplace_back(std::string(header::kQueue), queue);
  failed.headers->emplace_back(std::string(header::kError), "it did not work");
  std::int64_t delay = first_delay(queue);
  if (dice.one_in(8)) {
    failed.headers->emplace_back(std::string(header::kNever), true);
    delay = kNever;
  } else if (dice.one_in(4)) {
    const Ms after{dice.spread(1, 8000)};
    failed.headers->emplace_back(std::string(header::kAfter), std::to_string(after.count()) + "ms");
    const levels::Ladder& ladder = *world_.rules->ladder(world_.rules->queue(queue).ladder);
    const auto& cap = world_.rules->queue(queue).gate.retry_after.cap;
    delay = std::min(after, cap.value_or(ladder.highest())).count() * kMs;
  }
  put(number, "rung.failed", queue, failed, delay);
}

void Producers::delay(int number, Rng dice) {
  const std::string queue = dice.pick(kQueues);
  Message waits = message(number, !dice.one_in(6));
  const std::int64_t delay = dice.spread(0, 60'000);
  waits.headers->emplace_back(std::string(rabbit::kDelayHeader), delay);
  put(number, "rung.delay", queue, waits, delay * kMs);
}

void Producers::submit(int number, const std::string& queue, Ms delay, std::int64_t bytes, int tries) {
  Rng dice(world_.settings.seed, "submit", static_cast<std::uint64_t>(number * 16 + tries));
  Node* node = some_node(nodes_, dice);
  if (tries > 12) return;  // never confirmed: it may or may not have a row
  const auto later = [this, number, queue, delay, bytes, tries] {
    world_.events.after(2 * kSecond, nullptr, [this, number, queue, delay, bytes, tries] {
      submit(number, queue, delay, bytes, tries + 1);
    });
  };
  if (node == nullptr) return later();
  Entry& entry = judge_.entry(number);
  const std::int64_t due = judge_.reading() + delay.count() * kMs;
  if (entry.due_us == 0) entry.due_us = due;  // of the first try: it may have been committed
  Submission one;
  one.task.message = std::make_shared<const Message>(message(number, true));
  one.task.task.digest = message_digest(*one.task.message);
  one.task.task.queue = queue;
  one.task.task.message_id = "id-" + std::to_string(number);
  one.task.task.body_bytes = bytes;
  one.task.intake_key = submission_key(one.task.task.message_id);
  one.task.same_if_over_since = EpochMs{};  // said again it is the same, as by HTTP
  one.delay = delay;
  world_.note(number, [&] { return "submitted to " + node->name(); });
  // It may hear of it after this process has gone: then not at all.
  auto heard = std::make_shared<bool>(false);
  node->bridge().submit({std::move(one)},
                        [this, number, heard, later](const Result<std::vector<bridge::Submitted>>& answer) {
                          if (std::exchange(*heard, true)) return;
                          if (!answer) return later();
                          world_.note(number, [&] { return std::string("its submission is answered"); });
                          judge_.accepted(number);
                        });
  world_.events.after(20 * kSecond, nullptr, [heard, later] {
    if (!std::exchange(*heard, true)) later();
  });
}

void Producers::burst(int first, int count, Ms delay) {
  for (int i = 0; i < count; ++i) submit(first + i, "orders", delay, 2'000'000, 0);
}

void Producers::forge(const Message& delivery, const std::string& queue, Rng& dice) {
  const int number = ++last_;
  Message forged = delivery;
  forged.body = body_of(number);
  // Some publishers have one message-id for all, or none.
  if (!Rng(world_.settings.seed, "forge", static_cast<std::uint64_t>(number)).one_in(3))
    forged.properties.message_id = "id-" + std::to_string(number);
  judge_.entry(number).has_id = forged.properties.message_id.has_value();
  set_header(forged, header::kQueue, queue);
  if (dice.one_in(2)) {
    for (auto& [name, value] : *forged.headers) {
      if (name == header::kToken) value = "1-00000000000000000000000000000000";
    }
  }
  // The row of a failed message that is not ours: its own headers set the due time (the ladder in them is
  // only a request).
  put(number, "rung.failed", queue, forged, 0);
}

}  // namespace rung::sim
