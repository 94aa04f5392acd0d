// Finds the error queues and says which of them the consumer consumes: those that exist, that can be consumed
// without harm, and that do not rest (Broker::rest). The management API finds the queues of a pattern, once a
// minute, and says what kind of queue each is. The broker is asked whether a queue exists on a connection of
// its own, because consuming a missing queue would close the consumer's channel.
//
// Thread: start, rest, order_stop and join from any; the sink is called on its own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugin/rabbitmq/connection_loop.h"
#include "plugin/rabbitmq/error_consumers.h"
#include "plugin/rabbitmq/queue_lookup.h"

namespace rung::rabbit {

// Whether something new has come into an error queue in which only returned copies were left.
// Thread: one.
class RestWatch {
 public:
  // Each end costs one pass of the copies, which another reader of the queue sees missing for a moment.
  static constexpr Ms kLongest{std::chrono::minutes{1}};
  // `copies`: how many go back to the queue. `unsettled`: how often in a row the queue had another number of
  // messages after that: something came meanwhile, or another instance holds copies, too.
  RestWatch(BootMs now, std::size_t copies, int unsettled)
      : since_(now), copies_(copies), unsettled_(unsettled) {}
  // `messages`: those ready in the queue. True: consume it again.
  bool over(std::size_t messages, BootMs now);
  // The queue has had exactly these copies.
  bool settled() const { return settled_; }

 private:
  BootMs since_;
  std::size_t copies_;
  int unsettled_;
  bool settled_ = false;
  // While another instance holds messages, the count drops and comes back.
  std::deque<std::size_t> last_;
};

// When to try something again that failed: after `first`, then twice as long each time, up to `longest`.
class Retry {
 public:
  constexpr Retry(Ms first, Ms longest) : first_(first), longest_(longest) {}
  Ms next() {
    const Ms pause = std::min(first_ * (1 << std::min(tries_, 20)), longest_);
    ++tries_;
    return pause;
  }
  void reset() { tries_ = 0; }

 private:
  Ms first_, longest_;
  int tries_ = 0;  // in a row
};

class ErrorQueueWatch {
 public:
  // `wake_consumer`: it has a new list to apply.
  ErrorQueueWatch(ConnectionLoop::Deps deps, ErrorConsumers& consumers, std::function<void()> wake_consumer);
  ~ErrorQueueWatch();

  void start();
  void rest(std::string queue, std::size_t copies);
  void order_stop(BootMs deadline);
  void join();

 private:
  // Whether the management API has said what kind of queue it is.
  enum class Known : std::uint8_t { no, asked, yes };
  struct Queue {
    bool there = false;
    Known known = Known::no;  // yes also if nobody could be asked
    bool consumed = false;
    BootMs next_look{0};
    std::optional<RestWatch> resting = {};
    int unsettled = 0;                                            // rests that ended so, in a row
    std::string problem = {};                                     // stays while it is tried again
    Retry retry{std::chrono::minutes{1}, std::chrono::hours{1}};  // after a refusal
    std::string unfit = {};                                       // why it is never consumed
  };

  Result<BootMs> turn(Connection& connection);
  void ask();
  void take_answer();
  void take_list(const QueueLookup::Answer& answer);
  void take_orders();
  void take_events();
  void refused(Queue& queue, std::string reason) const;
  Result<void> look(Connection& connection, const std::string& name, Queue& queue);
  void report();

  const BrokerOptions& options_;
  ErrorConsumers& consumers_;
  const std::function<void()> wake_consumer_;
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::size_t>> to_rest_;  // guarded by mutex_

  // Used by the watch's thread only, after start().
  std::map<std::string, Queue, std::less<>> queues_;
  BootMs next_list_{0};
  Retry list_retry_{std::chrono::seconds{5}, std::chrono::minutes{1}};
  std::string list_problem_;
  ErrorQueueReport reported_;
  ErrorConsumers::Names wanted_;
  bool channel_open_ = false;

  QueueLookup lookup_;
  ConnectionLoop loop_;  // last: its callbacks use the others
};

}  // namespace rung::rabbit
