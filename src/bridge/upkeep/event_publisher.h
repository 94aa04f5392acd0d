// Publishes events for other systems (src/store/outgoing_events.h) to the topic exchange <prefix>.events,
// with the routing key KIND.QUEUE: the owner of shard 0 does, each second, one batch at a time. A row is
// deleted when the broker has the event, or says that no queue is bound for it. Two owners in turn may
// publish one twice, with the same id. Thread: the loop's.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/bridge/base/outbox.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/io/loop.h"
#include "src/store/store.h"

namespace rung::bridge {

// The bodies of events, in their order; nullopt: not to be published. On a store thread. None: the config
// publishes no events.
using EventBodies = std::function<Result<std::vector<std::optional<std::string>>>(
    Store& store, const std::vector<OutgoingEvent>& events, const std::string& exchange)>;

// Since the start, by kind and by what the broker did: confirmed, unrouted (no queue is bound for it),
// refused (it cannot be sent at all).
struct EventCounts {
  static constexpr std::array<std::string_view, 3> kOutcomes{"confirmed", "unrouted", "refused"};
  std::map<std::pair<OutgoingKind, std::size_t>, std::int64_t> published;
};

class EventPublisher {
 public:
  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    Outbox& outbox;
    std::function<bool()> may_publish;
    std::string exchange;
    EventBodies bodies;
  };

  EventPublisher(io::Loop& loop, Deps deps);
  void start();
  void stop() { timer_.stop(); }
  bool idle() const { return !busy_; }
  const EventCounts& counts() const { return counts_; }

 private:
  using Batch = std::vector<std::pair<OutgoingEvent, std::optional<std::string>>>;

  void read();
  void send(const Batch& batch);
  void answered(const OutgoingEvent& event, const PublishResult& result);
  void forget();

  const Deps deps_;
  io::Timer timer_;
  EventCounts counts_;
  bool busy_ = false;               // a batch is under way
  std::size_t unanswered_ = 0;      // of that batch
  bool full_ = false;               // there may be more events behind it
  std::vector<std::int64_t> over_;  // of that batch: the broker has them, or never will
};

}  // namespace rung::bridge
