#include "plugin/rabbitmq/consume/error_consumers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "plugin/rabbitmq/consume/error_queue_limits.h"

namespace rung::rabbit {

void ErrorConsumers::want(Names queues) {
  const std::lock_guard lock(mutex_);
  for (const Event& event : events_) {
    if (event.what != Event::What::consuming) queues.erase(event.queue);
  }
  wanted_ = std::move(queues);
}

std::vector<ErrorConsumers::Event> ErrorConsumers::take_events() {
  const std::lock_guard lock(mutex_);
  return std::exchange(events_, {});
}

std::optional<ErrorConsumers::Down> ErrorConsumers::down() const {
  const std::lock_guard lock(mutex_);
  return down_;
}

bool ErrorConsumers::is_wanted(const std::string& queue) const {
  const std::lock_guard lock(mutex_);
  return wanted_.contains(queue);
}

void ErrorConsumers::up(const Connection&) {
  {
    const std::lock_guard lock(mutex_);
    down_.reset();
  }
  told_();
}

void ErrorConsumers::down(const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    down_ = {down_ ? down_->since : clock_.boot(), why.message};
  }
  told_();
}

void ErrorConsumers::begin_channel() {
  consumed_.clear();
  prefetch_set_ = false;
}

bool ErrorConsumers::must_change(bool consuming) const {
  if (!consuming) return false;
  const std::lock_guard lock(mutex_);
  return wanted_ != consumed_;
}

Result<ConsumedQueues::Changed> ErrorConsumers::change(const Calls& calls, bool) {
  Names wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted = wanted_;
  }
  std::erase_if(consumed_, [&](const std::string& queue) {
    if (wanted.contains(queue)) return false;
    rabbit::send_cancel(calls.connection, queue);
    return true;
  });
  std::vector<std::string> missing;
  std::ranges::copy_if(wanted, std::back_inserter(missing),
                       [&](const std::string& queue) { return !consumed_.contains(queue); });
  // Those first that may be refused. A refusal closes the channel: what the broker has sent on it by then
  // counts as delivered once more, and a quorum queue drops a message that was delivered too often.
  std::stable_partition(missing.begin(), missing.end(),
                        [&](const std::string& queue) { return !accepted_.contains(queue); });
  Calls for_one = calls;
  for (const std::string& queue : missing) {
    if (!is_wanted(queue)) continue;                       // deleted by now
    for_one.deadline = calls.waker.now() + kSetUpTimeout;  // no queue uses up the time of the others
    const auto started = start(queue, for_one);
    if (!started || *started == Changed::channel_closed) return started;
  }
  return Changed::done;
}

Result<ConsumedQueues::Changed> ErrorConsumers::start(const std::string& queue, const Calls& calls) {
  if (auto done = set_prefetch(calls); !done) return tl::unexpected(done.error());
  // Before the call: deliveries may come with its answer, and so may a cancel.
  consumed_.insert(queue);
  amqp_basic_consume_t consume{};
  consume.queue = bytes(queue);
  consume.consumer_tag = bytes(queue);
  const auto done = calls.send(AMQP_BASIC_CONSUME_METHOD, &consume);
  if (done) {
    accepted_.insert(queue);
    tell({Event::What::consuming, queue});
    return Changed::done;
  }
  if (calls.connection.channel_closed()) {
    give_up({Event::What::refused, queue, done.error().message});
    return Changed::channel_closed;
  }
  // A quorum queue without a leader does not answer. The connection is of no use any more; without this queue
  // the next one serves the others.
  if (!calls.waker.stopping() && calls.waker.now() >= calls.deadline)
    give_up({Event::What::refused, queue, done.error().message});
  return tl::unexpected(done.error());
}

Result<void> ErrorConsumers::set_prefetch(const Calls& calls) {
  if (prefetch_set_) return {};
  amqp_basic_qos_t qos{};
  qos.prefetch_count = error_prefetch(options_.prefetch);  // for each consumer that begins from now on
  auto done = calls.send(AMQP_BASIC_QOS_METHOD, &qos);
  prefetch_set_ = done.has_value();
  return done;
}

Result<void> ErrorConsumers::cancel(const Calls& calls) {
  for (const std::string& queue : std::exchange(consumed_, {})) {
    if (auto done = calls.cancel(queue); !done) return done;
  }
  return {};
}

void ErrorConsumers::send_cancel(Connection& connection) {
  for (const std::string& queue : std::exchange(consumed_, {})) rabbit::send_cancel(connection, queue);
}

void ErrorConsumers::cancelled(std::string_view consumer_tag) {
  if (consumed_.erase(std::string(consumer_tag)) == 0) return;  // we have cancelled it, too
  give_up({Event::What::cancelled, std::string(consumer_tag)});
}

void ErrorConsumers::give_up(Event event) {
  accepted_.erase(event.queue);
  tell(std::move(event));
}

void ErrorConsumers::tell(Event event) {
  {
    const std::lock_guard lock(mutex_);
    if (event.what != Event::What::consuming) wanted_.erase(event.queue);
    events_.push_back(std::move(event));
  }
  told_();
}

}  // namespace rung::rabbit
