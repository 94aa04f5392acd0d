#include "tests/simulator/consumers.h"

#include <utility>

#include "tests/simulator/messages.h"

namespace rung::sim {

Consumers::Consumers(World& world, BrokerServer& server, Judge& judge, Producers& producers)
    : world_(world),
      server_(server),
      judge_(judge),
      producers_(producers),
      dice_(world.settings.seed, "consumers") {
  server_.on_copy = [this](const std::string& queue) {
    world_.events.after(dice_.one_in(20) ? dice_.between(1, 8000) * kMs : dice_.between(100, 20'000), nullptr,
                        [this, queue] { take(queue); });
  };
}

void Consumers::take(const std::string& queue) {
  BrokerServer::Queue& at = server_.queues()[queue];
  std::deque<Copy>& ready = at.ready;
  // A queue that answers no publish delivers nothing either.
  if (ready.empty() || at.silent > 0 || at.idle > 0) return;
  Copy copy = std::move(ready.front());
  ready.pop_front();
  handle(queue, std::move(copy));
}

void Consumers::handle(const std::string& queue, Copy copy) {
  if (id_of(copy.message)) judge_.read(copy.message);
  // The consumer dies with it: it is delivered again.
  if (!kind_ && dice_.one_in(25)) return server_.back(queue, std::move(copy));
  if (!id_of(copy.message)) return;
  Rng dice(world_.settings.seed, "word", copy.serial);
  act(queue, copy, dice);
}

void Consumers::act(const std::string& queue, const Copy& copy, Rng& dice) {
  const Settings& settings = world_.settings;
  const Word word{queue, copy.message};
  if (kind_) return succeed(word);
  if (settings.has(Actor::forgers) && dice.one_in(8)) producers_.forge(copy.message, queue, dice);
  if (settings.has(Actor::late) && dice.one_in(6)) {  // the same once more, or an old word, later
    const bool failure = dice.one_in(2);
    world_.events.after(dice.spread(1, 30'000) * kMs, nullptr, [this, word, failure, dice]() mutable {
      if (kind_) return;
      failure ? fail(word, dice, dice.one_in(2)) : succeed(word);
    });
  }
  const std::uint64_t what = dice.below(10);
  if (what < 3 && settings.has(Actor::silence)) {
    return world_.note(number_of(copy.message), [] { return std::string("its consumer says nothing"); });
  }
  if (what < 5 && settings.has(Actor::results)) return succeed(word);
  if (what < 8) {  // reject: what it leaves to the broker
    judge_.failed(copy.message, queue, {}, false);
    if (!server_.reject(queue, copy)) judge_.dropped(copy.message);
    return;
  }
  fail(word, dice, dice.one_in(2));
}

bool Consumers::put(const std::string& exchange, const std::string& key, const Message& message,
                    const std::function<void()>& said) {
  if (server_.is_away()) {  // the consumer retries, as any client does
    world_.events.after(kSecond, nullptr,
                        [this, exchange, key, message, said] { put(exchange, key, message, said); });
    return false;
  }
  said();
  return server_.put(exchange, key, message);
}

void Consumers::fail(const Word& word, Rng& dice, bool by_result) {
  Message message = word.delivery;
  set_header(message, header::kError, "no");
  std::optional<Ms> after;
  bool never = false;
  if (dice.one_in(5)) {
    after = Ms{dice.spread(1, 10'000)};
    message.headers->emplace_back(std::string(header::kAfter), std::to_string(after->count()) + "ms");
  } else if (dice.one_in(10)) {
    never = true;
    message.headers->emplace_back(std::string(header::kNever), true);
  }
  if (by_result) {
    message.headers->emplace_back(std::string(header::kResult), "failed");
  } else {
    set_header(message, header::kQueue, word.queue);
  }
  put(by_result ? "rung.results" : "rung.failed", word.queue, message, [this, word, by_result, after, never] {
    judge_.failed(word.delivery, by_result ? "" : word.queue, after, never);
  });
}

void Consumers::succeed(const Word& word) {
  Message message = word.delivery;
  message.headers->emplace_back(std::string(header::kResult), "succeeded");
  put("rung.results", word.queue, message, [this, word] { judge_.succeeded(word.delivery); });
}

}  // namespace rung::sim
