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

// --- consuming ---

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

// --- finding ---

ErrorQueueWatch::ErrorQueueWatch(ConnectionLoop::Deps deps, ErrorConsumers& consumers,
                                 std::function<void()> wake_consumer)
    : options_(deps.options),
      consumers_(consumers),
      wake_consumer_(std::move(wake_consumer)),
      loop_(deps,
            {.thread_name = "rung-errors",
             .purpose = "error queues",
             .side = {},
             .address_failed_when_over = false},
            {.turn = [this](Connection& connection) { return turn(connection); },
             .idle = [this] { return without_connection(); },
             .over =
                 [this](const ConnectionLoop::End& end) {
                   channel_open_ = false;
                   down_ = {down_ ? down_->since : loop_.now(), end.why.message};
                 }}) {
  consumers_.listen([this] { loop_.wake(); });
}

ErrorQueueWatch::~ErrorQueueWatch() { join(); }

void ErrorQueueWatch::start() {
  for (const ErrorQueue& entry : options_.error_queues->all()) {
    if (!entry.is_pattern()) queues_.try_emplace(entry.from);
  }
  loop_.start();
}

void ErrorQueueWatch::order_stop(BootMs deadline) {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (admin_ != nullptr) admin_->interrupt();
  }
  loop_.order_stop(deadline);
}

Result<BootMs> ErrorQueueWatch::turn(Connection& connection) {
  if (auto open = loop_.skip_frames(connection); !open) return tl::unexpected(open.error());
  if (loop_.stopping()) return loop_.finish(connection, Ms{1000});
  down_.reset();
  take_events();
  if (options_.error_queues->has_patterns() && loop_.now() >= next_list_) {
    const bool listed = list();
    next_list_ = loop_.now() + (listed ? kListEvery : kListAgain);
  }
  for (auto& [name, queue] : queues_) {
    if (!queue.look_due(loop_.now())) continue;
    if (auto done = look(connection, name, queue); !done) return tl::unexpected(done.error());
  }
  tell();
  if (auto done = connection.flush(); !done) return tl::unexpected(done.error());
  if (auto done = connection.tick(); !done) return tl::unexpected(done.error());
  return loop_.now() + ErrorQueueState::kShortestPause;
}

BootMs ErrorQueueWatch::without_connection() {
  take_events();
  tell();
  return loop_.now() + ErrorQueueState::kShortestPause;
}

void ErrorQueueWatch::take_events() {
  using What = ErrorConsumers::Event::What;
  for (ErrorConsumers::Event& event : consumers_.take_events()) {
    const auto queue = queues_.find(event.queue);
    if (queue == queues_.end()) continue;
    switch (event.what) {
      case What::consuming:
        queue->second.consuming();
        break;
      case What::refused:
        queue->second.refused(std::move(event.reason), loop_.now());
        break;
      case What::cancelled:
        queue->second.cancelled(loop_.now());
        break;
    }
  }
}

// Of the management API: it alone lists queues.
Result<std::vector<std::string>> ErrorQueueWatch::names() {
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

bool ErrorQueueWatch::list() {
  auto found = names();
  if (!found) {
    list_problem_ = found.error().message;
    return false;
  }
  list_problem_.clear();
  too_many_ = keep_some(*found, [this](const std::string& name) { return queues_.contains(name); });
  for (const std::string& name : *found) queues_.try_emplace(name);
  std::erase_if(queues_, [&](const auto& one) {
    const ErrorQueue* entry = options_.error_queues->find(one.first);
    return entry->is_pattern() && std::ranges::find(*found, one.first) == found->end();
  });
  return true;
}

// Error: the connection has ended.
Result<void> ErrorQueueWatch::look(Connection& connection, const std::string& name, ErrorQueueState& queue) {
  queue.looking(loop_.now());
  const Calls calls = loop_.calls(connection);
  if (!channel_open_) {
    if (auto done = calls.open_channel(); !done) return done;
    channel_open_ = true;
  }
  const auto found = calls.look_at_queue(name);
  if (!found) return call_failed(calls, queue, found.error());
  if (!queue.was_refused()) {
    queue.exists(loop_.now());
    return {};
  }
  // A try of the consumer closes the channel of all error queues, so one that must fail is made here.
  if (const auto allowed = may_consume(calls, name); !allowed)
    return call_failed(calls, queue, allowed.error());
  queue.exists(loop_.now());
  channel_open_ = false;
  if (connection.channel_closed()) return {};
  return transient(
      "the broker has accepted a consumer with an invalid x-priority");  // it ends with the connection
}

// What a failed call means for the queue. Error: the connection has ended.
Result<void> ErrorQueueWatch::call_failed(const Calls& calls, ErrorQueueState& queue, const Error& error) {
  if (calls.connection.channel_closed()) {
    channel_open_ = false;
    if (calls.connection.closing().code == AMQP_NOT_FOUND) {
      queue.missing(loop_.now());
    } else {
      queue.refused(error.message, loop_.now());
    }
    return {};
  }
  if (!loop_.stopping() && loop_.now() >= calls.deadline) queue.refused(error.message, loop_.now());
  return tl::unexpected(error);
}

// To the consumer, which queues; to the sink, what is new.
void ErrorQueueWatch::tell() {
  ErrorConsumers::Names wanted;
  ErrorQueueReport now;
  now.problem = problem();
  for (const auto& [name, queue] : queues_) {
    if (queue.wanted()) wanted.insert(name);
    if (queue.consumed()) now.consumed.push_back(name);
  }
  consumers_.want(std::move(wanted));
  wake_consumer_();
  if (now.consumed == reported_.consumed && now.problem == reported_.problem) return;
  reported_ = now;
  loop_.sink().sink().on_error_queues(now);
}

std::string ErrorQueueWatch::problem() const {
  std::string all;
  std::size_t problems = 0;
  const auto add = [&](const std::string& what, const std::string& why) {
    if (why.empty() || ++problems > kMostProblems) return;
    all += (all.empty() ? "" : "; ") + what + ": " + why;
  };
  const auto add_down = [&](const std::string& what, const std::optional<ErrorConsumers::Down>& down) {
    if (down && loop_.now() - down->since >= kReportDownAfter) add(what, down->reason);
  };
  add_down("no error queue is consumed", consumers_.down());
  add_down("new error queues are not found", down_);
  add("the error queues of a pattern cannot be listed, and new ones are not found", list_problem_);
  add("too many error queues", too_many_);
  for (const auto& [name, queue] : queues_) add("error queue " + name, queue.problem());
  if (problems > kMostProblems) all += "; and " + std::to_string(problems - kMostProblems) + " more";
  return all;
}

}  // namespace rung::rabbit
