#include "src/bridge/transitions.h"

#include <memory>
#include <utility>
#include <variant>

namespace rung::bridge {
namespace {

constexpr Ms kConfirmWaits{20};

bool is_pressing(const Event& event) { return !std::holds_alternative<event::Confirmed>(event.what); }

}  // namespace

Transitions::Transitions(io::Loop& loop, StoreThreads& threads, std::function<Fence()> fence,
                         std::function<RuleBookPtr()> rules, std::function<void()> after)
    : threads_(threads),
      fence_(std::move(fence)),
      rules_(std::move(rules)),
      after_(std::move(after)),
      gather_(loop, kConfirmWaits, [this] { flush(); }) {}

void Transitions::add(Event event, Done done, std::uint32_t connection) {
  pressing_ += is_pressing(event) ? 1 : 0;
  waiting_.push_back({std::move(event), std::move(done), connection});
}

void Transitions::forget_before(std::uint32_t connection) {
  std::erase_if(waiting_, [&](const Item& item) {
    const bool gone = item.connection != 0 && item.connection < connection;
    pressing_ -= gone && is_pressing(item.event) ? 1 : 0;
    return gone;
  });
}

// A second batch beside the one under way only where it is worth its transaction.
bool Transitions::worth_a_turn() {
  if (waiting_.size() >= kMostInBatch / 2 || waiting_.front().alone) return true;
  return in_flight_ == 0 && (pressing_ > 0 || !gather_.hold());
}

void Transitions::flush() {
  while (!waiting_.empty() && in_flight_ < kMostInFlight && worth_a_turn()) {
    std::vector<Item> batch;
    while (!waiting_.empty() && batch.size() < kMostInBatch) {
      if (waiting_.front().alone && !batch.empty()) break;
      pressing_ -= is_pressing(waiting_.front().event) ? 1 : 0;
      batch.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
      if (batch.back().alone) break;
    }
    gather_.end();
    leave(std::move(batch));
  }
}

void Transitions::leave(std::vector<Item> batch) {
  ++in_flight_;
  auto shared = std::make_shared<std::vector<Item>>(std::move(batch));
  threads_.submit<std::vector<Decision>>(
      Lane::flow,
      [shared, fence = fence_(), decide = decider(rules_())](Store& store) {
        std::vector<Event> events;
        events.reserve(shared->size());
        for (const Item& item : *shared) events.push_back(item.event);
        return store.apply(events, fence, decide);
      },
      [this, shared](Result<std::vector<Decision>> result) {
        --in_flight_;
        arrived(*shared, std::move(result));
        after_();
        flush();
      });
}

void Transitions::arrived(std::vector<Item>& batch, Result<std::vector<Decision>> result) {
  if (result) {
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i].done((*result)[i]);
    return;
  }
  if (!result.error().is_transient() && batch.size() > 1) {
    for (Item& item : batch) {
      item.alone = true;
      pressing_ += is_pressing(item.event) ? 1 : 0;
      waiting_.push_back(std::move(item));
    }
    return;
  }
  const Result<Decision> failed = tl::unexpected<Error>(result.error());
  for (const Item& item : batch) item.done(failed);
}

}  // namespace rung::bridge
