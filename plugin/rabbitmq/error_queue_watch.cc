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
constexpr Ms kListAgain{seconds{5}};  // after a failure
constexpr Ms kListTimeout{1500};  // each for connecting and for the answer; a heartbeat must not be missed
constexpr Ms kLookAtMissing{seconds{5}};  // many frameworks declare an error queue with the first failure
constexpr Ms kLookAtPresent{minutes{1}};
constexpr Ms kLookAtResting{seconds{1}};
constexpr Ms kShortestRest{seconds{1}};       // the copies go back meanwhile
constexpr Ms kLongestUnsettled{seconds{10}};  // a failure that comes meanwhile waits as long
// Doubled with each refusal in a row: trying closes the channel of all inlets, and what was unacked comes
// again.
constexpr Ms kAfterRefusal{minutes{1}};
constexpr Ms kLongestAfterRefusal{minutes{60}};
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
      loop_(std::move(deps),
            {.thread_name = "rung-errors",
             .purpose = "error queues",
             .side = {},
             .address_failed_when_over = false},
            {.prepare = {},
             .turn = [this](Connection& connection) { return turn(connection); },
             .idle = {},
             .over = [this](const ConnectionLoop::End&) { channel_open_ = false; },
             .stopped = {}}) {}

ErrorQueueWatch::~ErrorQueueWatch() { join(); }

void ErrorQueueWatch::start() {
  if (options_.error_queues->empty()) return;
  for (const ErrorQueue& entry : options_.error_queues->all()) {
    if (!entry.is_pattern()) queues_.try_emplace(entry.from);
  }
  loop_.start();
}

void ErrorQueueWatch::rest(std::string queue, std::size_t copies) {
  const std::lock_guard lock(mutex_);
  to_rest_.emplace_back(std::move(queue), copies);
  loop_.wake();
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
  const auto open = loop_.read(
      connection, [](const Frame&) -> Result<bool> { return true; }, [] {});
  if (!open) return tl::unexpected(open.error());
  if (!*open) return transient(connection.closing().text);
  if (loop_.stopping())
    return loop_.finish(connection, std::min(loop_.stop_deadline(), loop_.now() + kWatchCloses));
  take_orders();
  if (options_.error_queues->has_patterns() && loop_.now() >= next_list_) {
    const bool listed = list();
    next_list_ = loop_.now() + (listed ? kListEvery : kListAgain);
  }
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
  for (const auto& refused : consumers_.take_refused()) {
    const auto queue = queues_.find(refused.queue);
    if (queue == queues_.end()) continue;
    if (refused.reason.empty()) {  // deleted
      queue->second = {};
      queue->second.next_look = loop_.now() + kLookAtResting;
      continue;
    }
    const int before = queue->second.refusals;
    queue->second = {};
    queue->second.refusals = before + 1;
    queue->second.problem = refused.reason;
    queue->second.next_look =
        loop_.now() + std::min(kAfterRefusal * (1 << std::min(before, 10)), kLongestAfterRefusal);
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
  const auto found = names();
  if (!found) {
    list_problem_ = "the error queues of a pattern cannot be listed, and new ones are not found: " +
                    found.error().message;
    return false;
  }
  list_problem_.clear();
  for (const std::string& name : *found) queues_.try_emplace(name);
  std::erase_if(queues_, [&](const auto& one) {
    const ErrorQueue* entry = options_.error_queues->find(one.first);
    return entry->is_pattern() && std::ranges::find(*found, one.first) == found->end();
  });
  return true;
}

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
  const auto answer = connection.call(AMQP_QUEUE_DECLARE_METHOD, &declare, AMQP_QUEUE_DECLARE_OK_METHOD,
                                      loop_.waker(), loop_.now() + kSetUpTimeout, ignore);
  if (!answer) {
    if (!connection.channel_closed()) return tl::unexpected(answer.error());
    const int code = connection.closing().code;
    channel_open_ = false;
    queue = {};
    queue.next_look = loop_.now() + kLookAtMissing;
    if (code != AMQP_NOT_FOUND) queue.problem = answer.error().message;
    return {};
  }
  const auto messages = static_cast<const amqp_queue_declare_ok_t*>(*answer)->message_count;
  queue.there = true;
  queue.problem.clear();
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
  now.problem = list_problem_;
  for (const auto& [name, queue] : queues_) {
    if (queue.there) now.consumed.push_back(name);
    if (queue.there && !queue.resting) wanted.insert(name);
    if (queue.problem.empty()) continue;
    if (!now.problem.empty()) now.problem += "; ";
    now.problem += "error queue " + name + ": " + queue.problem;
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
