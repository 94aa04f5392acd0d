#include "plugin/rabbitmq/error_queue_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "plugin/rabbitmq/error_queue_fit.h"

namespace rung::rabbit {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

constexpr Ms kListEvery{minutes{1}};
constexpr Ms kLookAtMissing{seconds{5}};  // many frameworks declare an error queue with the first failure
constexpr Ms kLookAtPresent{minutes{1}};
constexpr Ms kLookAtResting{seconds{1}};
constexpr Ms kShortestRest{seconds{1}};  // the copies go back meanwhile
constexpr Ms kLongestUnsettled{minutes{1}};
constexpr Ms kReportDownAfter{seconds{5}};  // a connection that is back by then is no problem
constexpr std::size_t kLooksCompared = 5;
constexpr Ms kWatchCloses{seconds{1}};

}  // namespace

bool RestWatch::over(std::size_t messages, BootMs now) {
  if (now - since_ >= kLongest) return true;
  if (!settled_) {
    settled_ = messages == copies_;
    const Ms pause = std::min(kShortestRest * (1 << std::min(unsettled_, 10)), kLongestUnsettled);
    if (!settled_) return now - since_ >= pause;
  }
  const bool more = !last_.empty() && messages > *std::ranges::max_element(last_);
  last_.push_back(messages);
  if (last_.size() > kLooksCompared) last_.pop_front();
  return more;
}

ErrorQueueWatch::ErrorQueueWatch(ConnectionLoop::Deps deps, ErrorConsumers& consumers,
                                 std::function<void()> wake_consumer)
    : options_(deps.options),
      consumers_(consumers),
      wake_consumer_(std::move(wake_consumer)),
      lookup_(options_, [this] { loop_.wake(); }),
      loop_(std::move(deps),
            {.thread_name = "rung-errors",
             .purpose = "error queues",
             .side = {},
             .address_failed_when_over = false},
            {.prepare = {},
             .turn = [this](Connection& connection) { return turn(connection); },
             .idle = {},
             .over = [this](const ConnectionLoop::End&) { channel_open_ = false; },
             .stopped = {}}) {
  consumers_.listen([this] { loop_.wake(); });
}

ErrorQueueWatch::~ErrorQueueWatch() { join(); }

void ErrorQueueWatch::start() {
  for (const ErrorQueue& entry : options_.error_queues->all()) {
    if (!entry.is_pattern()) queues_.try_emplace(entry.from);
  }
  loop_.start();
}

// Also while this watch has no connection, the consumer stops at once: else it would get the copies again
// while they go back.
void ErrorQueueWatch::rest(std::string queue, std::size_t copies) {
  consumers_.rest(queue);
  wake_consumer_();
  const std::lock_guard lock(mutex_);
  to_rest_.emplace_back(std::move(queue), copies);
  loop_.wake();
}

void ErrorQueueWatch::order_stop(BootMs deadline) {
  lookup_.stop();
  loop_.order_stop(deadline);
}

void ErrorQueueWatch::join() {
  loop_.join();
  lookup_.join();
}

Result<BootMs> ErrorQueueWatch::turn(Connection& connection) {
  const auto open = loop_.read(
      connection, [](const Frame&) -> Result<bool> { return true; }, [] {});
  if (!open) return tl::unexpected(open.error());
  if (!*open) return transient(connection.closing().text);
  if (loop_.stopping())
    return loop_.finish(connection, std::min(loop_.stop_deadline(), loop_.now() + kWatchCloses));
  take_orders();
  take_events();
  take_answer();
  ask();
  for (auto& [name, queue] : queues_) {
    if (loop_.now() < queue.next_look) continue;
    if (auto done = look(connection, name, queue); !done) return tl::unexpected(done.error());
  }
  report();
  // A refused declare leaves the answer to the broker's channel.close unsent; the turns would come without
  // pause.
  if (auto done = connection.flush(); !done) return tl::unexpected(done.error());
  if (auto done = connection.tick(); !done) return tl::unexpected(done.error());
  return loop_.now() + kLookAtResting;
}

void ErrorQueueWatch::take_orders() {
  std::vector<std::pair<std::string, std::size_t>> to_rest;
  {
    const std::lock_guard lock(mutex_);
    to_rest.swap(to_rest_);
  }
  for (const auto& [name, copies] : to_rest) {
    const auto queue = queues_.find(name);
    if (queue == queues_.end() || !queue->second.there) continue;
    queue->second.resting.emplace(loop_.now(), copies, queue->second.unsettled);
    queue->second.next_look = loop_.now() + kShortestRest;
  }
}

void ErrorQueueWatch::take_events() {
  using What = ErrorConsumers::Event::What;
  for (ErrorConsumers::Event& event : consumers_.take_events()) {
    const auto found = queues_.find(event.queue);
    if (found == queues_.end()) continue;
    Queue& queue = found->second;
    switch (event.what) {
      case What::consuming:
        queue.consumed = true;
        queue.problem.clear();
        queue.retry.reset();
        break;
      case What::refused:
        refused(queue, std::move(event.reason));
        break;
      case What::stopped:
        queue = {};
        queue.next_look = loop_.now() + kLookAtResting;
        break;
    }
  }
}

// The problem stays until the broker lets us consume the queue: it shall not come and go with each attempt.
void ErrorQueueWatch::refused(Queue& queue, std::string reason) const {
  Retry retry = queue.retry;
  const Ms pause = retry.next();
  queue = {};
  queue.retry = retry;
  queue.next_look = loop_.now() + pause;
  queue.problem = std::move(reason);
}

// --- what the management API knows

void ErrorQueueWatch::ask() {
  if (lookup_.busy()) return;
  const bool list = options_.error_queues->has_patterns();
  bool due = list && loop_.now() >= next_list_;
  std::vector<std::string> names;
  for (const auto& [name, queue] : queues_) {
    if (queue.there && queue.known == Known::no) names.push_back(name);
  }
  if (!due && names.empty()) return;
  for (const std::string& name : names) queues_[name].known = Known::asked;
  lookup_.ask(list ? std::vector<std::string>() : std::move(names));
}

void ErrorQueueWatch::take_answer() {
  const auto answer = lookup_.take();
  if (!answer) return;
  // A queue that a name in the config stands for is consumed even if nobody can say what kind it is.
  for (auto& [name, queue] : queues_) {
    if (queue.known != Known::asked) continue;
    queue.known = Known::yes;
    if (!*answer) continue;
    const auto facts = std::ranges::find((*answer).value(), name, &QueueFacts::name);
    if (facts != (*answer)->end()) queue.unfit = unfit(*facts);
  }
  if (options_.error_queues->has_patterns()) take_list(*answer);
}

void ErrorQueueWatch::take_list(const QueueLookup::Answer& answer) {
  if (!answer) {
    list_problem_ = "the error queues of a pattern cannot be listed, and new ones are not found: " +
                    answer.error().message;
    next_list_ = loop_.now() + list_retry_.next();
    return;
  }
  list_problem_.clear();
  ErrorConsumers::Names found;
  for (const ErrorQueue& entry : options_.error_queues->all()) {
    if (!entry.is_pattern()) continue;
    for (std::string& name : matching_queues(options_, entry, *answer)) found.insert(std::move(name));
  }
  for (const std::string& name : found) {
    const auto [queue, is_new] = queues_.try_emplace(name);
    if (is_new) queue->second.known = Known::yes;
  }
  std::erase_if(queues_, [&](const auto& one) {
    const ErrorQueue* entry = options_.error_queues->find(one.first);
    return entry->is_pattern() && !found.contains(one.first);
  });
  if (!found.empty()) list_retry_.reset();
  next_list_ = loop_.now() + (found.empty() ? list_retry_.next() : kListEvery);
}

// --- what the broker knows

// Error: the connection has ended.
Result<void> ErrorQueueWatch::look(Connection& connection, const std::string& name, Queue& queue) {
  const auto ignore = [](const Frame&) {};
  // Also if the connection ends now: a queue that does not answer must not end the next one at once.
  queue.next_look = loop_.now() + kLookAtPresent;
  if (!channel_open_) {
    if (auto done = connection.open_channel(loop_.waker(), loop_.now() + kSetUpTimeout, ignore); !done)
      return done;
    channel_open_ = true;
  }
  amqp_queue_declare_t declare{};
  declare.queue = bytes(name);
  declare.passive = 1;
  const auto deadline = loop_.now() + kSetUpTimeout;
  const auto answer = connection.call(AMQP_QUEUE_DECLARE_METHOD, &declare, AMQP_QUEUE_DECLARE_OK_METHOD,
                                      loop_.waker(), deadline, ignore);
  if (!answer && !connection.channel_closed()) {
    if (!loop_.stopping() && loop_.now() >= deadline) refused(queue, answer.error().message);
    return tl::unexpected(answer.error());
  }
  if (!answer) {
    channel_open_ = false;
    if (connection.closing().code != AMQP_NOT_FOUND) {
      refused(queue, answer.error().message);
      return {};
    }
    queue = {};
    queue.next_look = loop_.now() + kLookAtMissing;
    return {};
  }
  const auto messages = static_cast<const amqp_queue_declare_ok_t*>(*answer)->message_count;
  queue.there = true;
  if (queue.resting && queue.resting->over(messages, loop_.now())) {
    queue.unsettled = queue.resting->settled() ? 0 : queue.unsettled + 1;
    queue.resting.reset();
  }
  queue.next_look = loop_.now() + (queue.resting ? kLookAtResting : kLookAtPresent);
  return {};
}

void ErrorQueueWatch::report() {
  ErrorConsumers::Names wanted;
  ErrorQueueReport now;
  const auto add = [&](const std::string& problem) {
    now.problem += (now.problem.empty() ? "" : "; ") + problem;
  };
  const auto down = consumers_.down_since();
  if (down && loop_.now() - down->since >= kReportDownAfter)
    add("error queues cannot be consumed: " + down->reason);
  if (!list_problem_.empty()) add(list_problem_);
  for (const auto& [name, queue] : queues_) {
    if (queue.consumed) now.consumed.push_back(name);
    if (queue.there && queue.known == Known::yes && queue.unfit.empty() && !queue.resting)
      wanted.insert(name);
    const std::string& problem = queue.unfit.empty() ? queue.problem : queue.unfit;
    if (!problem.empty()) add("error queue " + name + ": " + problem);
  }
  if (wanted != wanted_) {
    wanted_ = wanted;
    consumers_.want(std::move(wanted));
    wake_consumer_();
  }
  if (now.consumed == reported_.consumed && now.problem == reported_.problem) return;
  reported_ = now;
  loop_.sink().error_queues(now);
}

}  // namespace rung::rabbit
