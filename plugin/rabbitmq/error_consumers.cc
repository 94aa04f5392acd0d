#include "plugin/rabbitmq/error_consumers.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "plugin/rabbitmq/intake_shares.h"

namespace rung::rabbit {
namespace {

constexpr std::string_view kErrorTag = "error.";

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
  consumed_.clear();
  queues_.clear();
  next_tag_ = 0;
  prefetch_ = 0;
}

bool ErrorConsumers::must_change(bool consuming) const {
  if (!consuming) return false;
  const std::lock_guard lock(mutex_);
  return wanted_.size() != consumed_.size() ||
         std::ranges::any_of(consumed_, [&](const auto& one) { return !wanted_.contains(one.first); });
}

Result<ConsumedQueues::Changed> ErrorConsumers::change(const Calls& calls, bool) {
  Names wanted;
  {
    const std::lock_guard lock(mutex_);
    wanted = wanted_;
  }
  std::erase_if(consumed_, [&](const auto& one) {
    if (wanted.contains(one.first)) return false;
    send_cancel_of(one.second, calls.connection);
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
  forget_ended();
  const std::string tag = std::string(kErrorTag) + std::to_string(next_tag_);
  queues_.emplace(next_tag_++, queue);
  consumed_[queue] = tag;
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

// A queue that rests is consumed anew each time. Deliveries of a consumer that has ended come soon after, if
// at all: the latest are enough.
void ErrorConsumers::forget_ended() {
  constexpr std::size_t kMostEnded = 2000;
  if (queues_.size() < consumed_.size() + 2 * kMostEnded) return;
  std::erase_if(queues_, [&](const auto& one) {
    const auto consumed = consumed_.find(one.second);
    const bool current =
        consumed != consumed_.end() && consumed->second == std::string(kErrorTag) + std::to_string(one.first);
    return !current && one.first + kMostEnded < next_tag_;
  });
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
  for (const auto& [queue, tag] : std::exchange(consumed_, {})) {
    const auto cancel = cancel_of(tag, true);
    const auto answer = calls.connection.call(AMQP_BASIC_CANCEL_METHOD, &cancel, AMQP_BASIC_CANCEL_OK_METHOD,
                                              calls.waker, calls.deadline, calls.others);
    if (!answer) return tl::unexpected(answer.error());
  }
  return {};
}

void ErrorConsumers::send_cancel(Connection& connection) {
  for (const auto& [queue, tag] : std::exchange(consumed_, {})) send_cancel_of(tag, connection);
}

void ErrorConsumers::cancelled(std::string_view consumer_tag) {
  const std::string queue = queue_of(consumer_tag);
  const auto consumed = consumed_.find(queue);
  if (consumed == consumed_.end() || consumed->second != consumer_tag) return;  // we have cancelled it, too
  consumed_.erase(consumed);
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

std::string ErrorConsumers::queue_of(std::string_view tag) const {
  if (!tag.starts_with(kErrorTag)) return {};
  tag.remove_prefix(kErrorTag.size());
  std::size_t number = 0;
  const auto [end, problem] = std::from_chars(tag.data(), tag.data() + tag.size(), number);
  const auto known = problem == std::errc{} ? queues_.find(number) : queues_.end();
  return known == queues_.end() ? std::string() : known->second;
}

}  // namespace rung::rabbit
