// The error queues that the consumer's channel consumes, beside the inlets. ErrorQueueWatch says which.
//
// Thread: want() and take_refused() from any; the rest from the consumer's own.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/rabbitmq/connection.h"

namespace rung::rabbit {

class ErrorConsumers {
 public:
  using Names = std::set<std::string, std::less<>>;

  // Consume these, and no others.
  void want(Names queues);
  // Queues that the broker did not let us consume, with its reason; or that it stopped: "" = deleted, most
  // probably. Each is reported once, and is no longer wanted.
  struct Refused {
    std::string queue, reason;
  };
  std::vector<Refused> take_refused();

  // A new channel: nothing is consumed on it.
  void begin_channel() {
    consumed_.clear();
    queues_.clear();
  }
  // Whether apply() has something to do.
  bool changed() const;
  // Starts and stops consumers. Error: the channel is closed; the queue that caused it is reported as
  // refused.
  Result<void> apply(Connection& connection, Waker& waker, BootMs deadline, const Connection::Others& others);
  // Sends basic.cancel for all, without waiting for answers.
  void cancel(Connection& connection);
  // The broker has cancelled this consumer. False: it is not one of these.
  bool cancelled(std::string_view tag);

  // The queue of a delivery with this consumer tag; "" = not one of these. Also for consumers that have ended
  // on this channel: their last deliveries may still come.
  std::string queue_of(std::string_view tag) const;

 private:
  Result<void> start(const std::string& queue, Connection& connection, Waker& waker, BootMs deadline,
                     const Connection::Others& others);

  mutable std::mutex mutex_;
  Names wanted_;                  // guarded by mutex_
  std::vector<Refused> refused_;  // guarded by mutex_

  // Used by the consumer's thread only.
  std::map<std::string, std::string, std::less<>> consumed_;  // queue -> consumer tag
  std::vector<std::string> queues_;                           // by the number in the tag
};

}  // namespace rung::rabbit
