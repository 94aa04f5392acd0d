// What a test does to the broker, and sees of it: other clients, faults, inspection. What Rung sees of it is
// in memory_broker.cc.
#include <utility>

#include "tests/support/memory/memory_broker.h"

namespace rung {

// --- other clients of the broker ---

void MemoryBroker::declare(std::string_view queue) {
  std::lock_guard lock(mutex_);
  queues_.try_emplace(std::string(queue));
}

void MemoryBroker::remove(std::string_view queue) {
  std::lock_guard lock(mutex_);
  if (const auto it = queues_.find(queue); it != queues_.end()) queues_.erase(it);
}

void MemoryBroker::attach(std::string_view queue, bool yes) {
  std::lock_guard lock(mutex_);
  if (yes) {
    detached_.erase(std::string(queue));
  } else {
    detached_.emplace(queue);
  }
}

bool MemoryBroker::attached(std::string_view queue) const {
  std::lock_guard lock(mutex_);
  return !detached_.contains(queue);
}

bool MemoryBroker::exists(std::string_view queue) const {
  std::lock_guard lock(mutex_);
  return queues_.contains(queue);
}

bool MemoryBroker::put(std::string_view exchange, std::string_view routing_key, const Message& message) {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
  return route(std::string(exchange), std::string(routing_key), message);
}

std::optional<Message> MemoryBroker::take(std::string_view queue) {
  std::lock_guard lock(mutex_);
  const auto it = queues_.find(queue);
  if (it == queues_.end() || it->second.empty()) return std::nullopt;
  Message message = std::move(it->second.front().message);
  it->second.pop_front();
  return message;
}

bool MemoryBroker::reject(std::string_view queue) {
  std::lock_guard lock(mutex_);
  const auto it = queues_.find(queue);
  if (it == queues_.end() || it->second.empty()) return false;
  Stored stored = std::move(it->second.front());
  it->second.pop_front();
  if (detached_.contains(queue)) return true;
  FailureFacts& failure = stored.failure;
  failure.reason = "rejected";
  failure.queue = it->first;
  failure.queue_by = "the record of the failure";
  failure.exchange = stored.exchange;
  failure.routing_key = stored.routing_key;
  failure.failed_at_s = clock_->wall().ms / 1000;
  ++failure.count;
  const auto inlet = queues_.find(options_.prefix + ".failed");
  if (inlet == queues_.end()) return false;
  stored.exchange = inlet->first;
  stored.redelivered = false;
  inlet->second.push_back(std::move(stored));
  changed_.notify_all();
  return true;
}

std::vector<Message> MemoryBroker::contents(std::string_view queue) const {
  std::lock_guard lock(mutex_);
  std::vector<Message> out;
  if (const auto it = queues_.find(queue); it != queues_.end()) {
    for (const Stored& stored : it->second) out.push_back(stored.message);
  }
  return out;
}

std::size_t MemoryBroker::depth(std::string_view queue) const {
  std::lock_guard lock(mutex_);
  const auto it = queues_.find(queue);
  return it == queues_.end() ? 0 : it->second.size();
}

// --- faults ---

void MemoryBroker::drop_connection() {
  std::lock_guard lock(mutex_);
  cut();
  status_.blocked = false;
  status_.reason = "the connection was cut";
  status_changed_ = true;
  changed_.notify_all();
}

void MemoryBroker::drop_error_intake() {
  std::lock_guard lock(mutex_);
  give_back(intake_of(Inlet::error));
  changed_.notify_all();
}

void MemoryBroker::go_away() {
  std::lock_guard lock(mutex_);
  cut();
  set_status(false, "the broker is away");
}

void MemoryBroker::come_back() {
  std::lock_guard lock(mutex_);
  set_status(true, {});
}

void MemoryBroker::block(std::string reason) {
  std::lock_guard lock(mutex_);
  status_.blocked = true;
  status_.reason = std::move(reason);
  status_changed_ = true;
  changed_.notify_all();
}

void MemoryBroker::unblock() {
  std::lock_guard lock(mutex_);
  status_.blocked = false;
  status_changed_ = true;
  changed_.notify_all();
}

void MemoryBroker::nack_next(int count) {
  std::lock_guard lock(mutex_);
  nacks_ = count;
}

void MemoryBroker::lose_next(int count, bool arrived) {
  std::lock_guard lock(mutex_);
  losses_ = count;
  losses_arrive_ = arrived;
}

void MemoryBroker::hold_confirms(std::string queue) {
  std::lock_guard lock(mutex_);
  confirms_held_ = true;
  confirms_held_for_ = std::move(queue);
}

void MemoryBroker::release_confirms() {
  std::lock_guard lock(mutex_);
  confirms_held_ = false;
  changed_.notify_all();
}

void MemoryBroker::become(std::string cluster, std::string owner) {
  std::lock_guard lock(mutex_);
  cluster_ = std::move(cluster);
  owner_ = std::move(owner);
}

// --- inspection ---

std::string MemoryBroker::owner() const {
  std::lock_guard lock(mutex_);
  return owner_;
}

std::string MemoryBroker::served() const {
  std::lock_guard lock(mutex_);
  return served_;
}

std::vector<MemoryBroker::Published> MemoryBroker::published() const {
  std::lock_guard lock(mutex_);
  return published_;
}

std::size_t MemoryBroker::unacked() const {
  std::lock_guard lock(mutex_);
  std::size_t all = 0;
  for (const Intake& intake : intakes_) all += intake.unacked.size();
  return all;
}

std::size_t MemoryBroker::waiting() const {
  std::lock_guard lock(mutex_);
  return waiting_.size() + unanswered_.size();
}

}  // namespace rung
