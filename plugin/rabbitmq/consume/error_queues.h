// Error queues: which queues can be ones, what is known of each, and how they are found and consumed.
#pragma once

#include <algorithm>
#include <atomic>
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
  // closes the channel of all error queues, and what was unacked comes again; but from the second try on not
  // where a permission is missing, for which the finder asks first.
  static constexpr Ms kAfterRefusal{5000};
  static constexpr Ms kLongestAfterRefusal{600'000};
  // While something changes.
  static constexpr Ms kShortestPause{1000};

  // Whether the broker is to be asked about the queue now.
  bool look_due(BootMs now) const { return now >= next_look_; }
  // It is asked now. A queue whose answer ends the connection is not the first one asked on the next.
  BootMs looking(BootMs now) { return next_look_ = now + kLookAtPresent; }
  BootMs next_look() const { return next_look_; }
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

// The error queues: what is known of each. They are consumed on a connection of their own: a queue that the
// broker refuses closes the channel, one that does not answer holds it up, and a backlog fills it. Rung's own
// queues notice none of that. The consumer tag is the queue's name. They are found on another connection
// (TopologyKeeper), where the broker is asked whether a queue exists: consuming a missing queue would
// close the consumer's channel. Queues that a pattern names are listed by the management API, once a minute.
//
// Thread: listen() before both start; interrupt() any; the others as they say.
class ErrorQueueBook final : public ConsumedQueues {
 public:
  // REQUIRES: all outlive it.
  ErrorQueueBook(const BrokerOptions& options, const Clock& clock, BrokerSink& sink);

  // `wake_finder`: there may be something to report; called on the consumer's thread. `wake_consumer`: there
  // may be something to change; called on the finder's.
  void listen(std::function<void()> wake_finder, std::function<void()> wake_consumer);
  // Aborts a request to the management API, and all later ones.
  void interrupt();

  // --- the finder's thread ---
  // Looks at the queues that are due, and reports. The channel is open, also afterwards. Error: the
  // connection has ended.
  Result<void> find(const Calls& calls);
  void finder_down(const Error& why);
  // To the sink, if there is something new.
  void report();

  // --- the consumer's thread ---
  Result<void> declare(const Calls&) override { return {}; }
  void up() override;
  void down(const Error& why) override;
  void begin_channel() override;
  Result<void> consume(const Calls&) override { return {}; }  // change() does it
  Result<void> cancel(const Calls& calls) override;
  void send_cancel(Connection& connection) override;
  bool must_change(bool consuming) const override { return consuming && changed_; }
  Result<Changed> change(const Calls& calls, bool consuming) override;
  void cancelled(std::string_view consumer_tag) override;
  // Also for consumers that have ended on this channel: their last deliveries may still come.
  Origin origin(std::string_view consumer_tag) const override {
    return {Inlet::error, std::string(consumer_tag)};
  }

 private:
  using Names = std::set<std::string, std::less<>>;
  // Since when a connection is away, and why.
  struct Down {
    BootMs since;
    std::string reason;
  };

  // Calls `tell` (ErrorQueueState&) under the mutex, if the queue is still known.
  template <typename Tell>
  void know(const std::string& queue, Tell&& tell);

  Result<std::vector<std::string>> matching_names();
  void list();
  Result<void> look(const Calls& calls, const std::string& name, bool was_refused);
  std::string problem() const;

  Result<Changed> start(const std::string& queue, const Calls& calls);
  bool is_wanted(const std::string& queue) const;
  // It is no longer consumed; `tell` (ErrorQueueState&) says why.
  template <typename Tell>
  void give_up(const std::string& queue, Tell&& tell);

  const BrokerOptions& options_;
  const Clock& clock_;
  BrokerSink& sink_;
  std::function<void()> wake_finder_, wake_consumer_;
  std::atomic<bool> changed_{true};  // what is wanted may differ from what is consumed

  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<std::string, ErrorQueueState, std::less<>> queues_;
  // To be consumed: those found by the end of a round, together. One by one, each that is refused would close
  // the channel of those before it once more.
  Names wanted_;
  std::optional<Down> consumer_down_, finder_down_;
  QueueAdmin* admin_ = nullptr;  // the one that is asked at the moment
  bool stopping_ = false;

  // Used by the finder's thread only.
  BootMs next_list_{0};
  std::string list_problem_, too_many_;
  ErrorQueueReport reported_;

  // Used by the consumer's thread only.
  Names consumed_;
  Names accepted_;  // the broker let us consume them when we last tried, on this channel or an earlier one
  bool prefetch_set_ = false;  // on this channel
};

}  // namespace rung::rabbit
