// Consumes the error queues.
#pragma once

#include <charconv>
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
#include "plugin/rabbitmq/topology/consumed_queues.h"
#include "src/core/base/clock.h"

namespace rung::rabbit {

// The consumer tags of one channel, and the queue of each. A queue that rests is consumed anew each time,
// under a new tag. Deliveries of a consumer that has ended come soon after, if at all: of those the latest
// kMostEnded are enough. Thread: one.
class ErrorConsumerTags {
 public:
  static constexpr std::size_t kMostEnded = 2000;
  using Consumed = std::map<std::string, std::string, std::less<>>;  // queue -> tag

  // A new channel.
  void clear() {
    consumed_.clear();
    queues_.clear();
    next_ = 0;
  }
  // The tag of the queue's next consumer.
  std::string begin(const std::string& queue) {
    forget_ended();
    std::string tag = tag_of(next_);
    queues_.emplace(next_++, queue);
    return consumed_[queue] = std::move(tag);
  }
  // "" = not known, or forgotten.
  std::string queue_of(std::string_view tag) const {
    if (!tag.starts_with(kBegins)) return {};
    tag.remove_prefix(kBegins.size());
    std::size_t number = 0;
    const auto [end, problem] = std::from_chars(tag.data(), tag.data() + tag.size(), number);
    const auto known = problem == std::errc{} ? queues_.find(number) : queues_.end();
    return known == queues_.end() ? std::string() : known->second;
  }
  // Those that are consumed. Erasing one ends its consumer.
  Consumed& consumed() { return consumed_; }
  const Consumed& consumed() const { return consumed_; }
  std::size_t known() const { return queues_.size(); }

 private:
  static constexpr std::string_view kBegins = "error.";

  static std::string tag_of(std::size_t number) { return std::string(kBegins) + std::to_string(number); }
  void forget_ended() {
    if (queues_.size() < consumed_.size() + 2 * kMostEnded) return;
    std::erase_if(queues_, [this](const auto& one) {
      const auto consumed = consumed_.find(one.second);
      const bool current = consumed != consumed_.end() && consumed->second == tag_of(one.first);
      return !current && one.first + kMostEnded < next_;
    });
  }

  Consumed consumed_;
  std::map<std::size_t, std::string> queues_;  // by the number in the tag: consumed, and the latest that were
  std::size_t next_ = 0;
};

// The error queues, as a Consumer consumes them, on a connection of their own: a queue that the broker
// refuses closes the channel, one that does not answer holds it up, and a backlog fills it. Rung's own queues
// notice none of that. ErrorQueueWatch says which queues.
//
// Thread: listen() before the consumer starts; want(), rest(), take_events() and down() from any; the rest
// from the consumer's own.
class ErrorConsumers final : public ConsumedQueues {
 public:
  using Names = std::set<std::string, std::less<>>;

  // REQUIRES: both outlive it.
  ErrorConsumers(const BrokerOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  // `told`: there are events to take, or down() has changed. It is called on the consumer's thread.
  void listen(std::function<void()> told) { told_ = std::move(told); }
  // Consume these, and no others; but none that has an event which was not taken yet. False: it was so
  // before.
  bool want(Names queues);
  // Stop consuming this one, until the next want().
  void rest(const std::string& queue);

  struct Event {
    // refused: the broker does not let us consume the queue, or does not answer. cancelled: it has ended the
    // consumer; most probably the queue was deleted. In both cases the queue is no longer wanted.
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
    return {Inlet::error, tags_.queue_of(consumer_tag)};
  }

 private:
  Result<Changed> start(const std::string& queue, const Calls& calls);
  Result<void> set_prefetch(const std::string& queue, const Calls& calls);
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
  ErrorConsumerTags tags_;
  Names accepted_;    // the broker let us consume them when we last tried, on this channel or an earlier one
  int prefetch_ = 0;  // of the next consumer of this channel; 0 = not set
};

}  // namespace rung::rabbit
