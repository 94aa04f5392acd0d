#include "src/bridge/intake/returned_copies.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/core/machine/headers.h"
#include "src/core/message/identity.h"

namespace rung::bridge {
namespace {

constexpr Ms kQuiet{300};
// RabbitMQ's consumer timeout is 30 minutes by default; held messages are unacked.
constexpr Ms kLongestHeld{std::chrono::minutes{5}};

// The same for two deliveries of one copy, and for two copies that a lost connection has left: all headers
// count, among them retry-id and retry-token.
std::string identity_of(const Message& copy) {
  std::string facts = message_digest(copy);
  append_unpublished(facts, copy.properties);
  return facts;
}

TaskId task_of(const Message& copy) {
  const Value* id = find(copy.headers, header::kId);
  const std::string* text = id != nullptr ? id->as_text() : nullptr;
  return text != nullptr ? TaskId::parse(*text).value_or(TaskId{}) : TaskId{};
}

// Headers that make the broker send copies elsewhere, and properties that it checks or acts on: the copy only
// goes back to where it came from.
void make_plain(Message& message) {
  message.properties.user_id.reset();
  message.properties.expiration.reset();
  if (message.headers)
    std::erase_if(*message.headers,
                  [](const auto& header) { return header.first == "CC" || header.first == "BCC"; });
}

}  // namespace

ReturnedCopies::ReturnedCopies(io::Loop& loop, Broker& broker, Outbox& outbox, Acks& acks,
                               Recognized& recognized)
    : loop_(loop), broker_(broker), outbox_(outbox), acks_(acks), recognized_(recognized) {}

void ReturnedCopies::add(Delivery copy) {
  if (draining_) return;
  if (!queues_.contains(copy.source)) forget_idle();
  const auto [place, first] =
      queues_.try_emplace(copy.source, loop_, [this, name = copy.source] { send_back(name); });
  Queue& queue = place->second;
  if (queue.held.empty()) queue.since = loop_.clock().boot();
  queue.held.push_back(std::move(copy));
  wait_for_quiet(queue);
}

// Whoever may create queues names error queues that a pattern matches.
void ReturnedCopies::forget_idle() {
  const auto idle = [](const auto& entry) { return entry.second.held.empty(); };
  if (static_cast<std::size_t>(std::ranges::count_if(queues_, idle)) >= kMostIdle)
    std::erase_if(queues_, idle);
}

void ReturnedCopies::failure_came(const std::string& error_queue) {
  const auto place = queues_.find(error_queue);
  if (place != queues_.end() && !place->second.held.empty()) wait_for_quiet(place->second);
}

void ReturnedCopies::wait_for_quiet(Queue& queue) {
  queue.last = loop_.clock().boot();
  queue.quiet.start(std::clamp(queue.since + kLongestHeld - queue.last, Ms{0}, kQuiet));
}

void ReturnedCopies::forget_before(const IntakeSession& session) {
  for (auto& [name, queue] : queues_)
    std::erase_if(queue.held, [&](const Delivery& copy) { return copy.tag.session.before(session); });
}

void ReturnedCopies::drain() {
  draining_ = true;
  queues_.clear();
}

// A connection that is lost between the publish and the ack leaves two copies of a task: one goes on.
void ReturnedCopies::send_back(const std::string& error_queue) {
  struct Copy {
    Delivery delivery;
    std::vector<DeliveryTag> tags;  // of its repeats, too
  };
  Queue& queue = queues_.at(error_queue);
  std::vector<Copy> copies;
  std::map<std::string, std::size_t> places;
  for (Delivery& held : std::exchange(queue.held, {})) {
    const auto [place, first] = places.try_emplace(identity_of(held.message), copies.size());
    if (!first) {
      recognized_.add({Recognized::As::copy, task_of(held.message), error_queue,
                       held.message.properties.message_id.value_or(""),
                       "its error queue has the same copy twice"});
      copies[place->second].tags.push_back(held.tag);
      continue;
    }
    copies.push_back({std::move(held), {}});
    copies.back().tags.push_back(copies.back().delivery.tag);
  }
  if (copies.empty()) return;
  if (loop_.clock().boot() >= queue.last + kQuiet) broker_.rest(error_queue, copies.size());
  for (Copy& copy : copies) {
    ++under_way_;
    make_plain(copy.delivery.message);
    outbox_.send({0, "", error_queue, std::move(copy.delivery.message)},
                 [this, tags = std::move(copy.tags)](const PublishResult& result) { sent(tags, result); });
  }
  outbox_.flush();
}

void ReturnedCopies::sent(const std::vector<DeliveryTag>& tags, const PublishResult& result) {
  --under_way_;
  if (result.how != PublishResult::How::confirmed) return broker_.requeue(tags);  // they come again
  for (const DeliveryTag& tag : tags) acks_.add_copy(tag);
  acks_.flush();
}

}  // namespace rung::bridge
