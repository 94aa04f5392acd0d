// The error queues that a Consumer consumes, on a connection of its own: a queue that the broker refuses
// closes the channel, and one that does not answer holds it up; neither may disturb Rung's own queues.
// ErrorQueueWatch says which queues.
//
// Thread: listen() before the consumer starts; want(), rest(), take_events() and down_since() from any; the
// rest from the consumer's own.
#pragma once

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
#include "plugin/rabbitmq/consumed_queues.h"
#include "src/core/clock.h"

namespace rung::rabbit {

class ErrorConsumers final : public ConsumedQueues {
 public:
  using Names = std::set<std::string, std::less<>>;

  // REQUIRES: both outlive it.
  ErrorConsumers(const BrokerOptions& options, const Clock& clock) : options_(options), clock_(clock) {}

  // `told`: there is something new to ask for. It is called on the consumer's thread.
  void listen(std::function<void()> told) { told_ = std::move(told); }
  // Consume these, and no others.
  void want(Names queues);
  // Stop consuming this one, until the next want().
  void rest(const std::string& queue);

  struct Event {
    // refused: the broker does not let us consume the queue, or does not answer. stopped: it has cancelled
    // the consumer; most probably the queue was deleted. Neither is wanted any more.
    enum class What : std::uint8_t { consuming, refused, stopped };
    What what = What::consuming;
    std::string queue;
    std::string reason = {};  // refused
  };
  std::vector<Event> take_events();
  struct Down {
    BootMs since;
    std::string reason;
  };
  // Why there is no connection; none = there is one, or none was tried yet.
  std::optional<Down> down_since() const;

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
  Origin origin(std::string_view consumer_tag) const override;

 private:
  Result<Changed> start(const std::string& queue, const Calls& calls);
  Result<void> limit(const std::string& queue, const Calls& calls);
  void give_up(Event event);
  void tell(Event event);
  std::string queue_of(std::string_view consumer_tag) const;

  const BrokerOptions& options_;
  const Clock& clock_;
  std::function<void()> told_ = [] {};
  mutable std::mutex mutex_;
  Names wanted_;               // guarded by mutex_
  std::vector<Event> events_;  // guarded by mutex_
  std::optional<Down> down_;   // guarded by mutex_

  // Used by the consumer's thread only.
  std::map<std::string, std::string, std::less<>> consumed_;  // queue -> consumer tag
  std::vector<std::string> queues_;                           // of this channel, by the number in the tag
  int prefetch_ = 0;                                          // of the next consumer of this channel
};

}  // namespace rung::rabbit
