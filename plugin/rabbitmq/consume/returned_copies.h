// Puts returned copies (parked: return) back to the end of their error queues. A consumer cannot pass over a
// message, and a quorum queue drops one that is requeued some twenty times: so a copy is published again, and
// acked once that is confirmed. It stands between the publishers and the caller's sink, for the results of
// its own publishes. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "plugin/broker.h"

namespace rung::rabbit {

class ReturnedCopies final : public BrokerSink {
 public:
  struct Calls {
    std::function<void(std::vector<Outgoing>)> publish;
    std::function<void(std::vector<DeliveryTag>)> ack, requeue;
  };
  // REQUIRES: `caller` outlives it.
  ReturnedCopies(BrokerSink& caller, Calls calls) : caller_(caller), calls_(std::move(calls)) {}

  // Those of one queue, which is not consumed any more. Returns how many go back.
  std::size_t put_back(std::vector<Delivery> copies);

  void on_deliveries(std::vector<Delivery> batch) override { caller_.on_deliveries(std::move(batch)); }
  void on_published(std::vector<PublishResult> results) override;
  void on_status(const BrokerStatus& status) override { caller_.on_status(status); }
  void on_topology(const TopologyReport& report) override { caller_.on_topology(report); }
  void on_error_queues(const ErrorQueueReport& report) override { caller_.on_error_queues(report); }
  void on_copy_dropped(const DroppedCopy& copy) override { caller_.on_copy_dropped(copy); }
  void on_place(const PlaceReport& report) override { caller_.on_place(report); }

 private:
  BrokerSink& caller_;
  const Calls calls_;
  std::mutex mutex_;
  struct Sent {
    std::vector<DeliveryTag> tags;  // of its twins, too
    std::vector<DroppedCopy> twins;
  };
  // Guarded by mutex_.
  std::map<std::uint64_t, Sent> sent_;  // by token
  std::uint64_t next_token_ = kMostTokens;
};

}  // namespace rung::rabbit
