// Error queues: which queues can be ones, what is known of each, who consumes them, and who finds them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/broker_options.h"
#include "plugin/rabbitmq/consume/consumer.h"
#include "plugin/rabbitmq/topology/management.h"
#include "plugin/rabbitmq/wire/connection_loop.h"
#include "src/core/base/clock.h"
#include "src/core/base/time.h"

namespace rung::rabbit {

// --- limits ---
// The same for the sidecar and for `rung doctor`. Error queues share the prefetch and the memory for unacked
// messages with Rung's own queues: a backlog in them neither fills the memory nor stands before fresh dead
// letters. Thread: pure functions.

// One of Rung's own queues, of any group of the config.
inline bool is_own_queue(const BrokerOptions& options, std::string_view queue) {
  const auto begins = [&](const std::string& prefix) { return queue.starts_with(prefix + "."); };
  return begins(options.prefix) || std::ranges::any_of(options.group_prefixes, begins);
}

// Why Rung does not consume this queue; "" = it does. An exclusive queue is refused by the broker itself.
inline std::string unfit(const QueueFacts& queue) {
  if (queue.auto_delete)
    return "it is deleted with its messages when its last consumer leaves; declare it without auto-delete";
  if (queue.type == "stream") return "it is a stream: its messages stay when they are acked; use a queue";
  return {};
}

// Whether a pattern stands for this queue. Queues that cannot be consumed are skipped without a word.
inline bool may_match(const BrokerOptions& options, const QueueFacts& queue) {
  return !queue.exclusive && unfit(queue).empty() && !is_own_queue(options, queue.name);
}

// Of those that patterns match at most this many are consumed.
inline constexpr std::size_t kMostErrorQueues = 1000;
// Keeps that many, first those that are consumed already. Returns what to tell people; "" = all are kept.
inline std::string keep_some(std::vector<std::string>& found,
                             const std::function<bool(const std::string& queue)>& is_consumed) {
  if (found.size() <= kMostErrorQueues) return {};
  std::string told = "the patterns match " + std::to_string(found.size()) + " queues, of which " +
                     std::to_string(kMostErrorQueues) + " are consumed";
  // Not std::ranges: clang 14 cannot instantiate that of GCC 12.
  std::stable_partition(found.begin(), found.end(), is_consumed);
  found.resize(kMostErrorQueues);
  return told;
}

// Unacked messages of one error queue, as basic.qos takes it: a tenth of broker.prefetch.
inline std::uint16_t error_prefetch(int prefetch) {
  return static_cast<std::uint16_t>(std::clamp(prefetch / 10, 1, 65535));
}

// Bytes of unacked messages: a quarter for all error queues together, if there are any.
inline std::size_t error_intake_bytes(const BrokerOptions& options) {
  return options.error_queues->empty() ? 0 : options.max_intake_bytes / 4;
}
inline std::size_t own_intake_bytes(const BrokerOptions& options) {
  return options.max_intake_bytes - error_intake_bytes(options);
}

// What is known about one error queue, and when to look at it again: whether it exists, and whether the
// broker lets us consume it. Thread: one.
class ErrorQueueState {
 public:
  // After a refusal the queue is left alone for so long; doubled with each refusal in a row. A try that fails
  // closes the channel of all error queues, and what was unacked comes again; but from the
  // second try on not where a permission is missing, for which the watch asks first.
  static constexpr Ms kAfterRefusal{5000};
  static constexpr Ms kLongestAfterRefusal{600'000};
  // While something changes. Nothing wakes the watch earlier.
  static constexpr Ms kShortestPause{1000};

  // Whether the broker is to be asked about the queue now.
  bool look_due(BootMs now) const { return now >= next_look_; }
  // It is asked now. A queue whose answer ends the connection is not the first one asked on the next.
  void looking(BootMs now) { next_look_ = now + kLookAtPresent; }
  // Its answer.
  void exists(BootMs now) {
    exists_ = true;
    next_look_ = now + kLookAtPresent;
  }
  void missing(BootMs now) {
    gone(now + kLookAtMissing);
    problem_.clear();
    refusals_ = 0;
  }
  // The broker refuses it, or does not answer for it.
  void refused(std::string reason, BootMs now) {
    gone(now + std::min(kAfterRefusal * (1 << std::min(refusals_, 10)), kLongestAfterRefusal));
    ++refusals_;
    problem_ = std::move(reason);
  }

  // The last try has failed.
  bool was_refused() const { return refusals_ > 0; }

  // Whether to consume it.
  bool wanted() const { return exists_; }
  // The broker lets us; and it has ended that, most probably because the queue was deleted.
  void consuming() {
    consumed_ = true;
    problem_.clear();
    refusals_ = 0;
  }
  void cancelled(BootMs now) { gone(now + kShortestPause); }
  bool consumed() const { return consumed_; }

  // The reason of the last refusal, until the queue is consumed; "" = none.
  const std::string& problem() const { return problem_; }

 private:
  static constexpr Ms kLookAtMissing{5000};  // many frameworks declare an error queue with the first failure
  static constexpr Ms kLookAtPresent{60'000};

  void gone(BootMs next_look) {
    exists_ = consumed_ = false;
    next_look_ = next_look;
  }

  bool exists_ = false, consumed_ = false;
  BootMs next_look_{0};
  int refusals_ = 0;  // in a row
  std::string problem_;
};

// The error queues, as a Consumer consumes them, on a connection of their own: a queue that the broker
// refuses closes the channel, one that does not answer holds it up, and a backlog fills it. Rung's own queues
// notice none of that. ErrorQueueWatch says which queues. The consumer tag is the queue's name.
//
// Thread: listen() before the consumer starts; want(), take_events() and down() from any; the rest from the
// consumer's own.
class ErrorConsumers final : public ConsumedQueues {
 public:
  using Names = std::set<std::string, std::less<>>;

  // REQUIRES: all outlive it.
  ErrorConsumers(const BrokerOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  // `told`: there are events to take, or down() has changed. It is called on the consumer's thread.
  void listen(std::function<void()> told) { told_ = std::move(told); }
  // Consume these, and no others; but none that has an event which was not taken yet.
  void want(Names queues);

  struct Event {
    // refused: the broker does not let us consume the queue, or does not answer. cancelled: it has ended the
    // consumer; most probably the queue was deleted. In these cases the queue is no longer wanted.
    enum class What : std::uint8_t { consuming, refused, cancelled };
    What what = What::consuming;
    std::string queue;
    std::string reason = {};  // refused
  };
  std::vector<Event> take_events();
  // Since when there is no connection, and why; none = there is one, or none was tried yet.
  struct Down {
    BootMs since;
    std::string reason;
  };
  std::optional<Down> down() const;

  Result<void> declare(const Calls&) override { return {}; }
  void up(const Connection& connection) override;
  void down(const Error& why) override;
  void begin_channel() override;
  Result<void> consume(const Calls&) override { return {}; }  // change() does it
  Result<void> cancel(const Calls& calls) override;
  void send_cancel(Connection& connection) override;
  bool must_change(bool consuming) const override;
  Result<Changed> change(const Calls& calls, bool consuming) override;
  void cancelled(std::string_view consumer_tag) override;
  // Also for consumers that have ended on this channel: their last deliveries may still come.
  Origin origin(std::string_view consumer_tag) const override {
    return {Inlet::error, std::string(consumer_tag)};
  }

 private:
  Result<Changed> start(const std::string& queue, const Calls& calls);
  Result<void> set_prefetch(const Calls& calls);
  void give_up(Event event);
  void tell(Event event);
  bool is_wanted(const std::string& queue) const;

  const BrokerOptions& options_;
  const Clock& clock_;
  std::function<void()> told_ = [] {};
  mutable std::mutex mutex_;
  Names wanted_;               // guarded by mutex_
  std::vector<Event> events_;  // guarded by mutex_
  std::optional<Down> down_;   // guarded by mutex_

  // Used by the consumer's thread only.
  Names consumed_;
  Names accepted_;  // the broker let us consume them when we last tried, on this channel or an earlier one
  bool prefetch_set_ = false;  // on this channel
};

// Finds the error queues, says which of them ErrorConsumers consumes, and reports. Queues that a pattern
// names are found by the management API, once a minute; the broker is asked whether a queue exists on a
// connection of its own, because consuming a missing queue would close the consumer's channel.
//
// Thread: start, order_stop and join from any; the sink is called on its own.
class ErrorQueueWatch {
 public:
  // `wake_consumer`: each second; it may have something to change. REQUIRES: `consumers` outlives it.
  ErrorQueueWatch(ConnectionLoop::Deps deps, ErrorConsumers& consumers, std::function<void()> wake_consumer);
  ~ErrorQueueWatch();

  void start();
  void order_stop(BootMs deadline);
  void join() { loop_.join(); }

 private:
  Result<BootMs> turn(Connection& connection);
  BootMs without_connection();
  bool list();
  Result<std::vector<std::string>> names();
  void take_events();
  Result<void> look(Connection& connection, const std::string& name, ErrorQueueState& queue);
  Result<void> call_failed(const Calls& calls, ErrorQueueState& queue, const Error& error);
  void tell();
  std::string problem() const;

  const BrokerOptions& options_;
  ErrorConsumers& consumers_;
  const std::function<void()> wake_consumer_;
  std::mutex mutex_;
  QueueAdmin* admin_ = nullptr;  // guarded by mutex_: the one that is asked at the moment
  bool stopping_ = false;        // guarded by mutex_

  // Used by the watch's thread only, after start().
  std::map<std::string, ErrorQueueState, std::less<>> queues_;
  BootMs next_list_{0};
  std::string list_problem_, too_many_;
  ErrorQueueReport reported_;
  bool channel_open_ = false;
  std::optional<ErrorConsumers::Down> down_;  // this watch's own connection

  ConnectionLoop loop_;  // last: its callbacks use the others
};

}  // namespace rung::rabbit
