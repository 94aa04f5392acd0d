#include "plugin/rabbitmq/consume/error_queues.h"

#include <iterator>

#include "plugin/rabbitmq/topology/probe.h"

namespace rung::rabbit {
namespace {

constexpr Ms kListEvery{60'000};
constexpr Ms kListAgain{5000};    // after a failure
constexpr Ms kListTimeout{1500};  // each for connecting and for the answer; a heartbeat must not be missed
constexpr Ms kReportDownAfter{5000};  // a connection that is back by then is no problem
// Of those that patterns match: whoever may create queues names them.
constexpr std::size_t kMostProblems = 10;  // in the report

}  // namespace

ErrorQueueBook::ErrorQueueBook(const BrokerOptions& options, const Clock& clock, BrokerSink& sink)
    : options_(options), clock_(clock), sink_(sink) {
  for (const ErrorQueue& entry : options_.error_queues->all()) {
    if (!entry.is_pattern()) queues_.try_emplace(entry.from);
  }
}

void ErrorQueueBook::listen(std::function<void()> wake_finder, std::function<void()> wake_consumer) {
  wake_finder_ = std::move(wake_finder);
  wake_consumer_ = std::move(wake_consumer);
}

void ErrorQueueBook::interrupt() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  if (admin_ != nullptr) admin_->interrupt();
}

template <typename Tell>
void ErrorQueueBook::know(const std::string& queue, Tell&& tell) {
  const std::lock_guard lock(mutex_);
  if (const auto known = queues_.find(queue); known != queues_.end()) tell(known->second);
}

// --- finding ---

Result<void> ErrorQueueBook::find(const Calls& calls) {
  {
    const std::lock_guard lock(mutex_);
    finder_down_.reset();
  }
  if (options_.error_queues->has_patterns() && clock_.boot() >= next_list_) list();
  std::vector<std::pair<std::string, bool>> due;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, queue] : queues_) {
      if (queue.look_due(clock_.boot())) due.emplace_back(name, queue.was_refused());
    }
  }
  Result<void> done;
  for (auto one = due.begin(); done && one != due.end(); ++one) done = look(calls, one->first, one->second);
  report();
  return done;
}

// The management API alone lists queues.
Result<std::vector<std::string>> ErrorQueueBook::matching_names() {
  auto admin = management_admin(options_, kListTimeout);
  if (!admin) return tl::unexpected(admin.error());
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return transient("stopping");
    admin_ = admin->get();
  }
  auto queues = (*admin)->queues();
  const std::lock_guard lock(mutex_);
  admin_ = nullptr;
  if (!queues) return tl::unexpected(queues.error());
  std::vector<std::string> names;
  for (const QueueFacts& facts : *queues) {
    if (may_match(options_, facts) && options_.error_queues->find(facts.name) != nullptr)
      names.push_back(facts.name);
  }
  return names;
}

void ErrorQueueBook::list() {
  auto found = matching_names();
  next_list_ = clock_.boot() + (found ? kListEvery : kListAgain);
  list_problem_ = found ? "" : found.error().message;
  if (!found) return;
  const std::lock_guard lock(mutex_);
  too_many_ = keep_some(*found, [this](const std::string& name) { return queues_.contains(name); });
  for (const std::string& name : *found) queues_.try_emplace(name);
  std::erase_if(queues_, [&](const auto& one) {
    const ErrorQueue* entry = options_.error_queues->find(one.first);
    return entry->is_pattern() && std::ranges::find(*found, one.first) == found->end();
  });
}

Result<void> ErrorQueueBook::look(const Calls& calls, const std::string& name, bool was_refused) {
  Calls its = calls;
  its.deadline = clock_.boot() + kSetUpTimeout;  // no queue uses up the time of the others
  BootMs next_look;
  know(name, [&](ErrorQueueState& queue) { next_look = queue.looking(clock_.boot()); });
  const auto tell = [&](auto&& what) {
    know(name, [&](ErrorQueueState& queue) {
      if (queue.next_look() == next_look) what(queue);  // else the consumer knows better by now
    });
  };
  const auto found = its.look_at_queue(name);
  auto done = found ? Result<void>() : tl::unexpected(found.error());
  // A try of the consumer closes the channel of all error queues, so one that must fail is made here.
  if (done && was_refused) done = may_consume(its, name);
  const bool closed = its.connection.channel_closed();
  if (done) {
    tell([&](ErrorQueueState& queue) { queue.exists(clock_.boot()); });
  } else if (closed && its.connection.closing().code == AMQP_NOT_FOUND) {
    tell([&](ErrorQueueState& queue) { queue.missing(clock_.boot()); });
  } else if (closed || (!its.waker.stopping() && clock_.boot() >= its.deadline)) {
    tell([&](ErrorQueueState& queue) { queue.refused(done.error().message, clock_.boot()); });
  }
  if (closed) return its.open_channel();
  if (done && was_refused)  // the consumer ends with the connection
    return transient("the broker has accepted a consumer with an invalid x-priority");
  return done;
}

void ErrorQueueBook::finder_down(const Error& why) {
  const std::lock_guard lock(mutex_);
  finder_down_ = {finder_down_ ? finder_down_->since : clock_.boot(), why.message};
}

void ErrorQueueBook::report() {
  ErrorQueueReport now;
  {
    const std::lock_guard lock(mutex_);
    now.problem = problem();
    Names wanted;
    for (const auto& [name, queue] : queues_) {
      if (queue.consumed()) now.consumed.push_back(name);
      if (queue.wanted()) wanted.insert(name);
    }
    if (wanted != wanted_) changed_ = true;
    wanted_ = std::move(wanted);
  }
  if (changed_) wake_consumer_();
  if (now.consumed == reported_.consumed && now.problem == reported_.problem) return;
  reported_ = now;
  sink_.on_error_queues(now);
}

// REQUIRES: mutex_ is held.
std::string ErrorQueueBook::problem() const {
  std::string all;
  std::size_t problems = 0;
  const auto add = [&](const std::string& what, const std::string& why) {
    if (why.empty() || ++problems > kMostProblems) return;
    all += (all.empty() ? "" : "; ") + what + ": " + why;
  };
  const auto add_down = [&](const std::string& what, const std::optional<Down>& down) {
    if (down && clock_.boot() - down->since >= kReportDownAfter) add(what, down->reason);
  };
  add_down("no error queue is consumed", consumer_down_);
  add_down("new error queues are not found", finder_down_);
  add("the error queues of a pattern cannot be listed, and new ones are not found", list_problem_);
  add("too many error queues", too_many_);
  for (const auto& [name, queue] : queues_) add("error queue " + name, queue.problem());
  if (problems > kMostProblems) all += "; and " + std::to_string(problems - kMostProblems) + " more";
  return all;
}

// --- consuming ---

void ErrorQueueBook::up() {
  {
    const std::lock_guard lock(mutex_);
    consumer_down_.reset();
  }
  wake_finder_();
}

void ErrorQueueBook::down(const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    consumer_down_ = {consumer_down_ ? consumer_down_->since : clock_.boot(), why.message};
  }
  wake_finder_();
}

void ErrorQueueBook::begin_channel() {
  consumed_.clear();
  prefetch_set_ = false;
  changed_ = true;
}

bool ErrorQueueBook::is_wanted(const std::string& queue) const {
  const std::lock_guard lock(mutex_);
  return wanted_.contains(queue);
}

Result<ConsumedQueues::Changed> ErrorQueueBook::change(const Calls& calls, bool) {
  changed_ = false;
  std::erase_if(consumed_, [&](const std::string& queue) {
    if (is_wanted(queue)) return false;
    rabbit::send_cancel(calls.connection, queue);
    return true;
  });
  std::vector<std::string> missing;
  {
    const std::lock_guard lock(mutex_);
    std::ranges::copy_if(wanted_, std::back_inserter(missing),
                         [&](const std::string& queue) { return !consumed_.contains(queue); });
  }
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

Result<ConsumedQueues::Changed> ErrorQueueBook::start(const std::string& queue, const Calls& calls) {
  if (!prefetch_set_) {
    if (auto done = calls.prefetch(error_prefetch(options_.prefetch)); !done)
      return tl::unexpected(done.error());
    prefetch_set_ = true;
  }
  // Before the call: deliveries may come with its answer, and so may a cancel.
  consumed_.insert(queue);
  const auto done = calls.consume(queue);
  if (done) {
    accepted_.insert(queue);
    know(queue, [](ErrorQueueState& state) { state.consuming(); });
    wake_finder_();
    return Changed::done;
  }
  const bool closed = calls.connection.channel_closed();
  // A quorum queue without a leader does not answer. The connection is of no use any more; without this queue
  // the next one serves the others.
  if (closed || (!calls.waker.stopping() && calls.waker.now() >= calls.deadline)) {
    give_up(queue, [&](ErrorQueueState& state) { state.refused(done.error().message, clock_.boot()); });
  }
  if (closed) return Changed::channel_closed;
  return tl::unexpected(done.error());
}

Result<void> ErrorQueueBook::cancel(const Calls& calls) {
  changed_ = true;
  for (const std::string& queue : std::exchange(consumed_, {})) {
    if (auto done = calls.cancel(queue); !done) return done;
  }
  return {};
}

void ErrorQueueBook::send_cancel(Connection& connection) {
  changed_ = true;
  for (const std::string& queue : std::exchange(consumed_, {})) rabbit::send_cancel(connection, queue);
}

void ErrorQueueBook::cancelled(std::string_view consumer_tag) {
  const std::string queue(consumer_tag);
  if (consumed_.erase(queue) == 0) return;  // we have cancelled it, too
  give_up(queue, [&](ErrorQueueState& state) { state.cancelled(clock_.boot()); });
}

template <typename Tell>
void ErrorQueueBook::give_up(const std::string& queue, Tell&& tell) {
  accepted_.erase(queue);
  know(queue, tell);
  {
    const std::lock_guard lock(mutex_);
    wanted_.erase(queue);
  }
  wake_finder_();
}

}  // namespace rung::rabbit
