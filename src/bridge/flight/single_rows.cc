// Store calls on many rows of which one may fail for good, because of its data.
#include <fmt/format.h>

#include <iterator>

#include "src/bridge/flight/transitions.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

// `call` (span) -> vector; `failed` (item, Error) -> the result of a single item that failed for good.
template <typename Out, typename In, typename Call, typename Failed>
std::vector<Out> split_on_error(std::span<const In> items, const Call& call, const Failed& failed) {
  auto done = result_of([&] { return call(items); });
  if (done || done.error().kind != Error::Kind::permanent || items.empty()) return or_throw(std::move(done));
  if (items.size() == 1) return {failed(items.front(), std::move(done.error()))};
  const std::size_t half = items.size() / 2;
  auto first = split_on_error<Out>(items.first(half), call, failed);
  auto second = split_on_error<Out>(items.subspan(half), call, failed);
  std::ranges::move(second, std::back_inserter(first));
  return first;
}

}  // namespace

std::vector<StoredMessage> read_messages(Store& store, std::span<const TaskId> ids) {
  return split_on_error<StoredMessage>(
      ids, [&](std::span<const TaskId> some) { return store.messages(some); },
      [](TaskId id, Error why) {
        return StoredMessage{id, nullptr, std::move(why.message)};
      });
}

void prove(StoredMessage& stored, const Task& task) {
  if (stored.message == nullptr || task.digest.empty()) return;
  // Headers may have been changed by hand, within their column.
  if (has_body_of(*stored.message, task.digest)) return;
  stored.broken = fmt::format("its body of {} bytes is not that of the message, which had {}",
                              stored.message->body.size(), task.body_bytes);
  stored.message = nullptr;
}

namespace {

Claimed claim_and_read(Store& store, std::span<const Event> claims, const Fence& fence, const Decider& decide,
                       std::size_t most_bytes) {
  auto claimed = result_of([&] { return store.claim(claims, fence, decide, most_bytes); });
  if (claimed || claimed.error().kind != Error::Kind::permanent) return or_throw(std::move(claimed));
  auto decisions = split_on_error<Decision>(
      claims, [&](std::span<const Event> some) { return store.apply(some, fence, decide); },
      [](const Event& claim, Error why) {
        log::error("claim failed",
                   {{"tasks", 1}, {"reason", "task " + std::to_string(claim.id.value) + ": " + why.message}});
        return Decision{Decision::Verdict::refused, std::move(why.message), {}, {}};
      });
  auto messages = read_messages(store, first_claimed(decisions, most_bytes));
  return {std::move(decisions), std::move(messages)};
}

}  // namespace

Claimed claim_tasks(Store& store, std::span<const Event> claims, const Fence& fence, const Decider& decide,
                    std::size_t most_bytes) {
  Claimed claimed = claim_and_read(store, claims, fence, decide, most_bytes);
  std::unordered_map<TaskId, const Task*> tasks;
  for (const Decision& decision : claimed.decisions) tasks.emplace(decision.task.id, &decision.task);
  for (StoredMessage& stored : claimed.messages) prove(stored, *tasks.at(stored.id));
  return claimed;
}

std::vector<Decision> apply_step(Store& store, std::span<const Event> events, const Fence& fence,
                                 const Decider& decide, BulkStep step) {
  const auto apply = [&](std::span<const Event> some, const Decider& decider) {
    auto done = store.apply(some, fence, decider, &step);
    step.from = some.back().id;
    return done;
  };
  return split_on_error<Decision>(
      events, [&](std::span<const Event> some) { return apply(some, decide); },
      [&](const Event& event, const Error& why) {
        log::warn("bulk step failed", {{"reason", "task " + event.id.str() + ": " + why.message}});
        // It counts as refused, and the next one follows.
        const auto refuse = [&](const Task& task, const Happening&, const Circumstances&) {
          return Decision{Decision::Verdict::refused, why.message, task, {}};
        };
        return apply({&event, 1}, refuse).front();
      });
}

}  // namespace rung::bridge
