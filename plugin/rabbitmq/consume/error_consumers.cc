#include "plugin/rabbitmq/consume/error_consumers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "plugin/rabbitmq/consume/error_queue_limits.h"

namespace rung::rabbit {

namespace {

amqp_basic_cancel_t cancel_of(const std::string& tag, bool wait) {
  amqp_basic_cancel_t cancel{};
  cancel.consumer_tag = bytes(tag);
  cancel.nowait = wait ? 0 : 1;
  return cancel;
}

void send_cancel_of(const std::string& tag, Connection& connection) {
  const auto cancel = cancel_of(tag, false);
  connection.method(kChannel, AMQP_BASIC_CANCEL_METHOD, &cancel);
}

}  // namespace

bool ErrorConsumers::want(Names queues) {
  const std::lock_guard lock(mutex_);
  for (const Event& event : events_) {
    if (event.what != Event::What::consuming) queues.erase(event.queue);
  }
  return std::exchange(wanted_, std::move(queues)) != wanted_;
}

void ErrorConsumers::rest(const std::string& queue) {
  const std::lock_guard lock(mutex_);
  wanted_.erase(queue);
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
  tags_.clear();
  prefetch_ = 0;
}

bool ErrorConsumers::must_change(bool consuming) const {
  if (!consuming) return false;
  const std::lock_guard lock(mutex_);
  return wanted_.size() != tags_.consumed().size() ||
         std::ranges::any_of(tags_.consumed(), [&](const auto& one) { return !wanted_.contains(one.first); });
}

Result<ConsumedQueues::Changed> ErrorConsumers::change(const Calls& calls, bool) {
  Names wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted = wanted_;
  }
  std::erase_if(tags_.consumed(), [&](const auto& one) {
    if (wanted.contains(one.first)) return false;
    send_cancel_of(one.second, calls.connection);
    return true;
  });
  std::vector<std::string> missing;
  std::ranges::copy_if(wanted, std::back_inserter(missing),
                       [&](const std::string& queue) { return !tags_.consumed().contains(queue); });
  // Those first that may be refused. A refusal closes the channel: what the broker has sent on it by then
  // counts as delivered once more, and a quorum queue drops a message that was delivered too often.
  std::stable_partition(missing.begin(), missing.end(),
                        [&](const std::string& queue) { return !accepted_.contains(queue); });
  Calls for_one = calls;
  for (const std::string& queue : missing) {
    if (!is_wanted(queue)) continue;                       // deleted or resting by now
    for_one.deadline = calls.waker.now() + kSetUpTimeout;  // no queue uses up the time of the others
    const auto started = start(queue, for_one);
    if (!started || *started == Changed::channel_closed) return started;
  }
  return Changed::done;
}

Result<ConsumedQueues::Changed> ErrorConsumers::start(const std::string& queue, const Calls& calls) {
  if (auto done = set_prefetch(queue, calls); !done) return tl::unexpected(done.error());
  // Before the call: deliveries may come with its answer, and so may a cancel.
  const std::string tag = tags_.begin(queue);
  amqp_basic_consume_t consume{};
  consume.queue = bytes(queue);
  consume.consumer_tag = bytes(tag);
  const auto answer = calls.connection.call(AMQP_BASIC_CONSUME_METHOD, &consume, AMQP_BASIC_CONSUME_OK_METHOD,
                                            calls.waker, calls.deadline, calls.others);
  if (answer) {
    accepted_.insert(queue);
    tell({Event::What::consuming, queue});
    return Changed::done;
  }
  if (calls.connection.channel_closed()) {
    give_up({Event::What::refused, queue, answer.error().message});
    return Changed::channel_closed;
  }
  // A quorum queue without a leader does not answer. The connection is of no use any more; without this queue
  // the next one serves the others.
  if (!calls.waker.stopping() && calls.waker.now() >= calls.deadline)
    give_up({Event::What::refused, queue, answer.error().message});
  return tl::unexpected(answer.error());
}

Result<void> ErrorConsumers::set_prefetch(const std::string& queue, const Calls& calls) {
  const int wanted = error_prefetch(options_, options_.error_queues->find(queue));
  if (wanted == prefetch_) return {};
  amqp_basic_qos_t qos{};
  qos.prefetch_count = as_prefetch_count(wanted);  // for each consumer that begins from now on
  const auto answer = calls.connection.call(AMQP_BASIC_QOS_METHOD, &qos, AMQP_BASIC_QOS_OK_METHOD,
                                            calls.waker, calls.deadline, calls.others);
  if (!answer) return tl::unexpected(answer.error());
  prefetch_ = wanted;
  return {};
}

Result<void> ErrorConsumers::cancel(const Calls& calls) {
  for (const auto& [queue, tag] : std::exchange(tags_.consumed(), {})) {
    const auto cancel = cancel_of(tag, true);
    const auto answer = calls.connection.call(AMQP_BASIC_CANCEL_METHOD, &cancel, AMQP_BASIC_CANCEL_OK_METHOD,
                                              calls.waker, calls.deadline, calls.others);
    if (!answer) return tl::unexpected(answer.error());
  }
  return {};
}

void ErrorConsumers::send_cancel(Connection& connection) {
  for (const auto& [queue, tag] : std::exchange(tags_.consumed(), {})) send_cancel_of(tag, connection);
}

void ErrorConsumers::cancelled(std::string_view consumer_tag) {
  const std::string queue = tags_.queue_of(consumer_tag);
  auto& all = tags_.consumed();
  const auto consumed = all.find(queue);
  if (consumed == all.end() || consumed->second != consumer_tag) return;  // we have cancelled it, too
  all.erase(consumed);
  give_up({Event::What::cancelled, queue});
}

void ErrorConsumers::give_up(Event event) {
  accepted_.erase(event.queue);
  {
    const std::lock_guard lock(mutex_);
    wanted_.erase(event.queue);
  }
  tell(std::move(event));
}

void ErrorConsumers::tell(Event event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  told_();
}

}  // namespace rung::rabbit
