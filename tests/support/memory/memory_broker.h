// An in-memory broker for tests: queues, the default exchange, Rung's four fanout exchanges, mandatory
// returns, confirms, redelivery. The test injects faults by name: drop_connection(), block() ...
//
//   MemoryBroker broker(options);  // or (options, MemoryBroker::Pace::by_hand) and broker.pump()
//   broker.declare("orders");
//   broker.start(sink);
//   broker.put("orders", message);       // a producer
//   broker.reject("orders");             // the consumer failed: to rung.failed
//   ...                                  // the code under test publishes it back
//   auto again = broker.take("orders");  // the consumer gets it again and acks it
//
// It has more members than most classes: a broker's whole state is under one lock, so that no test sees
// half a change. Thread: every method from any thread. The sink is called on the broker's own thread, or
// inside pump().
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "src/core/base/time.h"

namespace rung {

class MemoryBroker final : public Broker {
 public:
  enum class Pace {
    own_thread,
    by_hand,  // nothing happens, and the sink is not called, except inside pump() and stop()
  };
  explicit MemoryBroker(BrokerOptions options = {}, Pace pace = Pace::own_thread,
                        std::shared_ptr<const Clock> clock = std::make_shared<SystemClock>());
  ~MemoryBroker() override;

  // --- Broker ---
  std::string_view name() const override { return "the broker in memory"; }
  BrokerLimits limits() const override { return {}; }
  Result<void> start(BrokerSink& sink) override;
  void claim(std::string database, bool mark) override;
  void serve_only(std::string cluster) override;
  void publish(std::vector<Outgoing> batch) override;
  void ack(std::vector<DeliveryTag> tags) override;
  void stop_intake() override;
  void pause_intake(bool yes) override;
  void allow_publish_until(BootMs deadline) override;
  bool stands(const DeliveryTag& tag) const override;
  void requeue(std::vector<DeliveryTag> tags) override;
  void drop_publishing(PublishLane lane, std::string reason) override;
  void stop(Ms most) override;

  // Does everything that is pending. True if there was something.
  bool pump();

  // --- other clients of the broker ---
  void declare(std::string_view queue);
  void remove(std::string_view queue);  // with its messages
  bool exists(std::string_view queue) const;
  // A producer. False if no queue takes the message.
  bool put(std::string_view queue, const Message& message) { return put("", queue, message); }
  bool put(std::string_view exchange, std::string_view routing_key, const Message& message);
  // A consumer: takes the oldest message and acks it.
  std::optional<Message> take(std::string_view queue);
  // A consumer: rejects the oldest message, which goes to <prefix>.failed with the record of its failure, or
  // is dropped if the queue is not attached.
  bool reject(std::string_view queue);
  // Whether dead letters of the queue go to <prefix>.failed, as they do unless detached.
  void attach(std::string_view queue, bool yes);
  bool attached(std::string_view queue) const;
  std::vector<Message> contents(std::string_view queue) const;  // ready messages, oldest first
  std::size_t depth(std::string_view queue) const;

  // --- faults ---
  // All: unacked are redelivered, unanswered publishes are lost; reconnects at once.
  void drop_connection();
  void drop_error_intake();  // the connection that consumes error queues; reconnects at once
  void go_away();            // the same, but reconnects only at come_back()
  void come_back();
  void block(std::string reason = "low on memory");  // an alarm: publishes wait
  void unblock();
  void nack_next(int count);  // nacks this many publishes, without delivering them
  // Loses this many publishes. The test says whether they arrived, since nobody else knows.
  void lose_next(int count, bool arrived);
  // Publishes arrive, but their results wait: all, or those to one queue.
  void hold_confirms(std::string queue = {});
  void release_confirms();

  // It has this name and owner, as if the connections led elsewhere; reported at the next claim().
  void become(std::string cluster, std::string owner);

  // --- inspection ---
  std::string owner() const;   // the database that this broker is marked with; "" = none
  std::string served() const;  // as in serve_only()
  struct Published {
    Outgoing outgoing;
    PublishResult::How how;
  };
  std::vector<Published> published() const;  // every publish() that has its result, in order
  std::size_t unacked() const;
  std::size_t waiting() const;  // publishes without a result

 private:
  struct Stored {
    Message message;
    std::string exchange, routing_key;
    bool redelivered = false;
    FailureFacts failure{};  // of the last rejection
  };
  struct Unacked {
    std::string queue;
    Stored stored;
  };
  // Like RabbitMQ's, the error queues have an intake of their own.
  struct Intake {
    IntakeSession session;
    std::uint64_t last_tag = 0;
    std::map<std::uint64_t, Unacked> unacked = {};  // by delivery tag
  };
  struct Told {  // calls to make on the sink once the lock is free
    std::vector<Delivery> deliveries, from_error_queues;
    std::vector<PublishResult> results;
    std::optional<BrokerStatus> status;
    std::optional<PlaceReport> place;
    bool empty() const {
      return deliveries.empty() && from_error_queues.empty() && results.empty() && !status && !place;
    }
  };

  // All REQUIRE mutex_.
  bool arrive(const Outgoing& outgoing);
  bool route(const std::string& exchange, const std::string& routing_key, const Message& message);
  bool knows_exchange(const std::string& exchange) const;
  void cut();
  void give_back(Intake& intake);
  Intake& intake_of(Inlet inlet) { return intakes_[inlet == Inlet::error ? 1 : 0]; }
  Intake* intake_of(const DeliveryTag& tag);  // nullptr: its session is over
  void lose_unanswered(std::string_view reason);
  void publish_waiting(Told& told);
  bool holds_confirm(const Outgoing& outgoing) const;
  PublishResult publish_one(const Outgoing& outgoing);
  void settle(Told& told, const Outgoing& outgoing, PublishResult result);
  void deliver(Told& told);
  void deliver_from(const std::string& name, std::deque<Stored>& queue, Inlet inlet, Told& told);
  void set_status(bool up, std::string reason);

  void tell(Told& told);
  void run();

  const BrokerOptions options_;
  const Pace pace_;
  const std::shared_ptr<const Clock> clock_;
  BrokerSink* sink_ = nullptr;  // set in start()
  std::thread thread_;
  std::mutex pumping_;  // one pump at a time, so that the sink's calls stay in order

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // All below: guarded by mutex_.
  bool stopping_ = false, stopped_ = false, intake_stopped_ = false, intake_paused_ = false,
       confirms_held_ = false;
  std::string confirms_held_for_;  // a queue; "" = all
  BootMs allow_until_{0};
  std::map<std::string, std::deque<Stored>, std::less<>> queues_;
  std::set<std::string, std::less<>> detached_;
  std::deque<Outgoing> waiting_;                                // not sent yet
  std::vector<std::pair<Outgoing, PublishResult>> unanswered_;  // arrived, confirm withheld
  std::array<Intake, 2> intakes_{Intake{{.number = 1, .intake = 0}}, Intake{{.number = 1, .intake = 1}}};
  int nacks_ = 0, losses_ = 0;
  bool losses_arrive_ = false;
  std::vector<Published> published_;
  BrokerStatus status_;
  bool status_changed_ = false;
  std::string cluster_ = "memory", owner_, served_;
  std::optional<PlaceReport> place_;        // to report
  std::vector<PublishResult> cut_results_;  // of what drop_connection() lost
};

}  // namespace rung
