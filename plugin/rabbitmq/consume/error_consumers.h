// Consumes the error queues.
#pragma once

#include <cstdint>
#include <functional>
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

}  // namespace rung::rabbit
