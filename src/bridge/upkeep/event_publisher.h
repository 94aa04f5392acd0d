// Publishes events for other systems (src/store/outgoing_events.h) to the topic exchange <prefix>.events,
// with the routing key KIND.QUEUE: the owner of shard 0 does, each second, one batch at a time. A row is
// deleted when the broker has the event, or says that no queue is bound for it.
//
// A queue behind the exchange may be full or silent. So events take the lane of probes, on which retries
// never wait, and after a batch that the broker did not take as a whole comes a pause, longer each time. Two
// owners in turn may publish an event twice, and so does a batch of which the broker took only a part; it
// has the same id then.
//
// Every owner of shard 0 also deletes what nobody has published for a week: its config names no events, or
// other ones. Thread: the loop's.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/bridge/base/health.h"
#include "src/bridge/base/outbox.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/db_clock.h"
#include "src/io/loop.h"
#include "src/store/store.h"

namespace rung::bridge {

// The body of an event; nullopt: it is not to be published. On a store thread. No function: the config
// publishes no events.
using EventBody = std::function<Result<std::optional<std::string>>(Store& store, const OutgoingEvent& event,
                                                                   const std::string& exchange)>;

// Since the start, by kind and by what the broker did: confirmed, unrouted (no queue is bound for it),
// refused (it cannot be sent at all).
struct EventCounts {
  static constexpr std::array<std::string_view, 3> kOutcomes{"confirmed", "unrouted", "refused"};
  std::map<std::pair<OutgoingKind, std::size_t>, std::int64_t> published;
};

class EventPublisher {
 public:
  static constexpr Ms kLongestPause{std::chrono::minutes{1}};
  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    Outbox& outbox;
    DbClock& clock;
    Health& health;  // problem "events"
    std::function<bool()> may_publish;
    std::string exchange;
    EventBody body;
    Ms kept{std::chrono::hours{24 * 7}};  // tests have their own
  };

  EventPublisher(io::Loop& loop, Deps deps);
  void start();
  void stop();
  // Publishes without an answer: the drain need not wait for them, the next owner sends them again.
  std::size_t unanswered() const { return unanswered_; }
  const EventCounts& counts() const { return counts_; }

 private:
  struct Item {
    OutgoingEvent event;
    std::optional<std::string> body;
    std::string broken = {};  // why its body cannot be made
  };
  using Batch = std::vector<Item>;

  static Result<Batch> read_batch(Store& store, const EventBody& body_of, const std::string& exchange);
  void tick();
  void read();
  void send(const Batch& batch);
  void answered(const OutgoingEvent& event, const PublishResult& result);
  void end_batch();
  void forget();
  void pause(const std::string& why);
  void drop_old();

  const Deps deps_;
  io::Timer timer_;
  EventCounts counts_;
  bool busy_ = false;               // a batch, or a job, is under way
  std::size_t unanswered_ = 0;      // of the batch
  bool full_ = false;               // there may be more events behind it
  std::string kept_;                // why some of it have to be sent again; "" = none
  std::vector<std::int64_t> over_;  // the broker has them, or never will: their rows are to be deleted
  Ms pause_{0};
  BootMs not_before_{0}, drop_at_{0};
};

}  // namespace rung::bridge
