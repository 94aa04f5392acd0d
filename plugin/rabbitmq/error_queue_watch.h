// Finds the error queues and says which of them the consumer consumes: those that exist, and that do not rest
// (Broker::rest). Queues that a pattern names are found by the management API, once a minute; the broker is
// asked whether a queue exists on a connection of its own, because consuming a missing queue would close the
// consumer's channel.
//
// Thread: start, rest, order_stop and join from any; the sink is called on its own.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugin/rabbitmq/connection_loop.h"
#include "plugin/rabbitmq/error_consumers.h"
#include "plugin/rabbitmq/management.h"

namespace rung::rabbit {

// Whether something new has come into an error queue in which only returned copies were left.
// Thread: one.
class RestWatch {
 public:
  static constexpr Ms kLongest{std::chrono::minutes{10}};
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

class ErrorQueueWatch {
 public:
  // `wake_consumer`: it has a new list to apply.
  ErrorQueueWatch(ConnectionLoop::Deps deps, ErrorConsumers& consumers, std::function<void()> wake_consumer);
  ~ErrorQueueWatch();

  // Does nothing if the config has no error queues.
  void start();
  void rest(std::string queue, std::size_t copies);
  void order_stop(BootMs deadline);
  void join() { loop_.join(); }

 private:
  struct Queue {
    bool there = false;
    BootMs next_look{0};
    std::optional<RestWatch> resting = {};
    int unsettled = 0;  // rests that ended so, in a row
    int refusals = 0;   // by the broker, in a row
    std::string problem = {};
  };

  Result<BootMs> turn(Connection& connection);
  bool list();
  Result<std::vector<std::string>> names();
  void take_orders();
  Result<void> look(Connection& connection, const std::string& name, Queue& queue);
  void report();

  const BrokerOptions& options_;
  ErrorConsumers& consumers_;
  const std::function<void()> wake_consumer_;
  std::mutex mutex_;
  std::vector<std::pair<std::string, std::size_t>> to_rest_;  // guarded by mutex_
  QueueAdmin* admin_ = nullptr;  // guarded by mutex_: the one that is asked at the moment
  bool stopping_ = false;        // guarded by mutex_

  // Used by the watch's thread only, after start().
  std::map<std::string, Queue, std::less<>> queues_;
  BootMs next_list_{0};
  std::string list_problem_;
  ErrorQueueReport reported_;
  ErrorConsumers::Names wanted_;
  bool channel_open_ = false;

  ConnectionLoop loop_;  // last: its callbacks use the others
};

}  // namespace rung::rabbit
