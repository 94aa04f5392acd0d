#include "src/bridge/returned_copies.h"

#include <map>
#include <string>
#include <utility>

#include "src/core/headers.h"

namespace rung::bridge {
namespace {

constexpr Ms kQuiet{300};

// "" = a message that is not ours, whatever its header says.
std::string task_of(const Delivery& copy) {
  const Value* id = find(copy.message.headers, header::kId);
  const std::string* text = id != nullptr ? id->as_text() : nullptr;
  return text != nullptr ? *text : std::string();
}

}  // namespace

ReturnedCopies::ReturnedCopies(io::Loop& loop, Broker& broker, Outbox& outbox, Acks& acks)
    : broker_(broker), outbox_(outbox), acks_(acks), quiet_(loop, [this] { send_back(); }) {}

void ReturnedCopies::add(Delivery copy) {
  if (draining_) return;
  held_.push_back(std::move(copy));
  quiet_.start(kQuiet);
}

void ReturnedCopies::forget_before(const IntakeSession& session) {
  std::erase_if(held_, [&](const Delivery& copy) { return copy.tag.session().before(session); });
}

void ReturnedCopies::drain() {
  draining_ = true;
  quiet_.stop();
  held_.clear();
}

// A connection that is lost between the publish and the ack leaves two copies of a task: one goes on.
void ReturnedCopies::send_back() {
  struct Copy {
    Delivery delivery;
    std::vector<DeliveryTag> tags;  // of its repeats, too
  };
  std::vector<Copy> copies;
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  std::map<std::string, std::size_t> counts;  // by queue
  for (Delivery& held : std::exchange(held_, {})) {
    const std::string task = task_of(held);
    const auto [place, first] = places.try_emplace({held.source, task}, copies.size());
    if (!first && !task.empty()) {
      copies[place->second].tags.push_back(held.tag);
      continue;
    }
    ++counts[held.source];
    copies.push_back({std::move(held), {}});
    copies.back().tags.push_back(copies.back().delivery.tag);
  }
  for (const auto& [queue, count] : counts) broker_.rest(queue, count);
  for (Copy& copy : copies) {
    ++under_way_;
    outbox_.send({0, "", copy.delivery.source, std::move(copy.delivery.message)},
                 [this, tags = std::move(copy.tags)](const PublishResult& result) { sent(tags, result); });
  }
  outbox_.flush();
}

void ReturnedCopies::sent(const std::vector<DeliveryTag>& tags, const PublishResult& result) {
  --under_way_;
  if (result.how != PublishResult::How::confirmed) return broker_.requeue(tags);  // they come again
  for (const DeliveryTag& tag : tags) acks_.add(tag);
  acks_.flush();
}

}  // namespace rung::bridge
