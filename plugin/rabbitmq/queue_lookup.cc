#include "plugin/rabbitmq/queue_lookup.h"

#include <chrono>
#include <utility>

#include "plugin/rabbitmq/threads.h"

namespace rung::rabbit {
namespace {

constexpr Ms kTimeout{std::chrono::seconds{10}};  // each for connecting and for the answer
constexpr std::size_t kMostOneByOne = 5;          // more queues are asked for with one list of all

}  // namespace

QueueLookup::QueueLookup(const BrokerOptions& options, std::function<void()> done)
    : options_(options), done_(std::move(done)) {}

QueueLookup::~QueueLookup() {
  stop();
  join();
}

void QueueLookup::ask(std::vector<std::string> names) {
  join();  // of the last question: it has answered
  busy_ = true;
  thread_ = start_thread("rung-queues", [this, names = std::move(names)] {
    Answer answered = answer(names);
    {
      const std::lock_guard lock(mutex_);
      answer_ = std::move(answered);
    }
    done_();
  });
}

std::optional<QueueLookup::Answer> QueueLookup::take() {
  const std::lock_guard lock(mutex_);
  if (answer_) busy_ = false;
  return std::exchange(answer_, std::nullopt);
}

void QueueLookup::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  if (admin_ != nullptr) admin_->interrupt();
}

void QueueLookup::join() {
  if (thread_.joinable()) thread_.join();
}

QueueLookup::Answer QueueLookup::answer(const std::vector<std::string>& names) {
  auto admin = management_admin(options_, kTimeout);
  if (!admin) return tl::unexpected(admin.error());
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return transient("stopping");
    admin_ = admin->get();
  }
  auto answered = look(**admin, names);
  const std::lock_guard lock(mutex_);
  admin_ = nullptr;
  return answered;
}

QueueLookup::Answer QueueLookup::look(QueueAdmin& admin, const std::vector<std::string>& names) {
  if (names.empty() || names.size() > kMostOneByOne) return admin.queues();
  std::vector<QueueFacts> found;
  for (const std::string& name : names) {
    auto facts = admin.queue(name);
    if (!facts && facts.error().kind == Error::Kind::not_found) continue;
    if (!facts) return tl::unexpected(facts.error());
    found.push_back(*std::move(facts));
  }
  return found;
}

}  // namespace rung::rabbit
