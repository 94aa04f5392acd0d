// Finds the error queues, says which of them ErrorConsumers consumes, and reports. Queues that a pattern
// names are found by the management API, once a minute; the broker is asked whether a queue exists on a
// connection of its own, because consuming a missing queue would close the consumer's channel.
//
// Thread: start, order_stop and join from any; the sink is called on its own.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "plugin/rabbitmq/consume/error_consumers.h"
#include "plugin/rabbitmq/consume/error_queue_state.h"
#include "plugin/rabbitmq/topology/management.h"
#include "plugin/rabbitmq/wire/connection_loop.h"

namespace rung::rabbit {

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
