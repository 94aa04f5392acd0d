#include "plugin/rabbitmq/error_consumers.h"

#include <algorithm>
#include <charconv>

namespace rung::rabbit {
namespace {

constexpr std::string_view kErrorTag = "error.";

void send_cancel(Connection& connection, const std::string& tag) {
  amqp_basic_cancel_t cancel{};
  cancel.consumer_tag = bytes(tag);
  cancel.nowait = 1;
  connection.method(kChannel, AMQP_BASIC_CANCEL_METHOD, &cancel);
}

}  // namespace

void ErrorConsumers::want(Names queues) {
  const std::lock_guard lock(mutex_);
  wanted_ = std::move(queues);
}

std::vector<ErrorConsumers::Refused> ErrorConsumers::take_refused() {
  const std::lock_guard lock(mutex_);
  return std::exchange(refused_, {});
}

bool ErrorConsumers::changed() const {
  const std::lock_guard lock(mutex_);
  return wanted_.size() != consumed_.size() ||
         std::ranges::any_of(consumed_, [&](const auto& one) { return !wanted_.contains(one.first); });
}

Result<void> ErrorConsumers::apply(Connection& connection, Waker& waker, BootMs deadline,
                                   const Connection::Others& others) {
  Names wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted = wanted_;
  }
  std::erase_if(consumed_, [&](const auto& one) {
    if (wanted.contains(one.first)) return false;
    send_cancel(connection, one.second);
    return true;
  });
  for (const std::string& queue : wanted) {
    if (consumed_.contains(queue)) continue;
    if (auto done = start(queue, connection, waker, deadline, others); !done) return done;
  }
  return {};
}

Result<void> ErrorConsumers::start(const std::string& queue, Connection& connection, Waker& waker,
                                   BootMs deadline, const Connection::Others& others) {
  // Before the call: deliveries may come with its answer.
  const std::string tag = std::string(kErrorTag) + std::to_string(queues_.size());
  queues_.push_back(queue);
  consumed_[queue] = tag;
  amqp_basic_consume_t consume{};
  consume.queue = bytes(queue);
  consume.consumer_tag = bytes(tag);
  const auto answer = connection.call(AMQP_BASIC_CONSUME_METHOD, &consume, AMQP_BASIC_CONSUME_OK_METHOD,
                                      waker, deadline, others);
  if (answer) return {};
  // A lost connection is no refusal.
  if (!connection.channel_closed()) return tl::unexpected(answer.error());
  const std::lock_guard lock(mutex_);
  wanted_.erase(queue);
  refused_.push_back({queue, answer.error().message});
  return tl::unexpected(answer.error());
}

void ErrorConsumers::cancel(Connection& connection) {
  for (const auto& [queue, tag] : consumed_) send_cancel(connection, tag);
  consumed_.clear();
}

bool ErrorConsumers::cancelled(std::string_view tag) {
  const std::string queue = queue_of(tag);
  if (queue.empty()) return false;
  consumed_.erase(queue);
  const std::lock_guard lock(mutex_);
  wanted_.erase(queue);
  refused_.push_back({queue, ""});
  return true;
}

std::string ErrorConsumers::queue_of(std::string_view tag) const {
  if (!tag.starts_with(kErrorTag)) return {};
  tag.remove_prefix(kErrorTag.size());
  std::size_t number = 0;
  const auto [end, problem] = std::from_chars(tag.data(), tag.data() + tag.size(), number);
  if (problem != std::errc{} || number >= queues_.size()) return {};
  return queues_[number];
}

}  // namespace rung::rabbit
