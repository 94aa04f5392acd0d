// What any broker must do for Rung. rabbitmq/ does it with RabbitMQ, memory/ for tests; docs/other-brokers.md
// says how another would. The bridge knows no more of a broker than this.
//
// Thread: every method of Broker may be called from any thread and returns at once (stop() excepted). The
// sink is called on the broker's own threads and must not block; deliveries and results come in batches.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/broker_facts.h"
#include "src/core/message.h"
#include "src/core/result.h"
#include "src/core/time.h"

namespace rung {

// The queues that are consumed. Their names: <prefix>.failed ...
enum class Inlet : std::uint8_t { failed, results, delay };

// Names one delivery to the broker that made it: for ack(), requeue() and stands(). Opaque: both numbers are
// the plugin's, and only a plugin reads them (tests/rooms_check).
struct DeliveryTag {
  std::uint32_t connection = 0;
  std::uint64_t tag = 0;

  // The session of the intake that it belongs to. The broker begins a session with each connection and with
  // each pause_intake(true); the numbers grow from 1. When one begins, all deliveries of earlier sessions are
  // void: an ack for them does nothing, and the broker delivers them again, to us or to somebody else.
  std::uint32_t session() const { return connection; }
};

struct Delivery {
  DeliveryTag tag;
  Inlet inlet = Inlet::failed;
  bool redelivered = false;
  // By which it was published to the inlet. exchange: the inlet itself, <prefix>.failed ..., or another that
  // leads there.
  std::string exchange, routing_key;
  Message message;      // without the headers that the broker itself wrote: they are in `facts`
  BrokerFacts facts{};  // failure: for Inlet::failed; delay: for Inlet::delay
};

// By which connection a message is published. probe: to find out whether a queue answers; should it not, it
// holds up nobody but other probes.
enum class PublishLane : std::uint8_t { main, probe };

struct Outgoing {
  std::uint64_t token = 0;  // the caller's own, unique among what is under way; comes back in PublishResult
  std::string exchange;     // "" = to the queue that routing_key names; else the exchange routes it
  std::string routing_key;
  Message message;
  PublishLane lane = PublishLane::main;
  // Not empty: to this queue alone, but with `routing_key` as its routing key; `exchange` is "" then. Where
  // the broker cannot do that the queue gets it all the same, under the queue's name. Where it refused to,
  // the result is `confirmed` with the reason.
  std::string queue{};
};

struct PublishResult {
  enum class How : std::uint8_t {
    confirmed,  // in the queue, on disk where both are durable
    returned,   // no queue for it; nothing was delivered
    nacked,     // the broker would not have it (queue full, internal error); nothing was delivered
    lost,       // the connection went before the answer: delivered or not, nobody knows
    fenced,     // not sent, because allow_publish_until had passed
    rejected,   // cannot be sent at all: a name too long for the broker, headers too large ...
  };
  std::uint64_t token = 0;
  How how = How::confirmed;
  std::string reason;
};

struct BrokerStatus {
  bool consuming = false;   // the intake connection is up
  bool publishing = false;  // the publishing connection is up
  bool blocked = false;     // an alarm in the broker (memory, disk): nothing is sent
  std::string reason;       // of the last change for the worse
  bool refused = false;     // a connection is down because the broker refuses us: login, right, declaration
  std::string consuming_at, publishing_at;  // "host:port", as of the last time that each was up
  bool operator==(const BrokerStatus&) const = default;
};

// What a check of the topology found.
struct TopologyReport {
  // Exchanges and queues that were missing and are declared again ("exchange rung.failed"). A missing binding
  // is restored as well, but need not be listed: RabbitMQ cannot tell whether one exists.
  std::vector<std::string> repaired;
  std::string problem;  // what could not be repaired, with the broker's reason and the command that helps; ""
                        // = nothing
};

class BrokerSink {
 public:
  virtual ~BrokerSink() = default;
  virtual void on_deliveries(std::vector<Delivery> deliveries) = 0;
  virtual void on_published(std::vector<PublishResult> results) = 0;
  virtual void on_status(const BrokerStatus& status) = 0;
  // After each check of the topology, and when the broker refuses to declare it.
  virtual void on_topology(const TopologyReport& report) = 0;
};

// What whoever publishes has to keep to, because of how the broker works.
struct BrokerLimits {
  // Publishes under way for one queue while it has not answered yet, and again after a loss: so few that a
  // queue which never answers does not hold up the others of its connection.
  std::size_t first_window = 16;
};

class Broker {
 public:
  virtual ~Broker() = default;

  // Both are always the same. name: for texts that people read, a constant.
  virtual std::string_view name() const = 0;
  virtual BrokerLimits limits() const = 0;

  // Starts the threads; connects, declares the topology and consumes in the background, again and again with
  // backoff. Fails only for what no waiting mends (a URL that does not parse, a CA file that is not there).
  // REQUIRES: the sink outlives stop().
  virtual Result<void> start(BrokerSink& sink) = 0;

  // Each gets exactly one PublishResult, when the broker has it for sure; also where the connection goes,
  // also at stop.
  virtual void publish(std::vector<Outgoing> batch) = 0;

  virtual void ack(std::vector<DeliveryTag> tags) = 0;

  // No further deliveries; what is unacked stays so. For drain.
  virtual void stop_intake() = 0;

  // True: no further deliveries, and what is unacked goes back to the broker, for whoever else consumes: a
  // new session begins, and stands() is false for what came before. False: deliveries come again.
  virtual void pause_intake(bool yes) = 0;

  // The fence: nothing is written to the publishing socket after this instant (0 = never allowed). Starts at
  // 0.
  virtual void allow_publish_until(BootMs deadline) = 0;

  // Whether the session of a delivery stands, as far as is known at this moment. Where it doesn't, the broker
  // gives the delivery to somebody else, or to us once more: what is not committed yet should be left. Also
  // false after this process stood still for so long that the broker may have given it up.
  virtual bool stands(const DeliveryTag& tag) const = 0;

  // Not now: the broker is to deliver these again. For one of an earlier session it does nothing, as ack().
  virtual void requeue(std::vector<DeliveryTag> tags) = 0;

  // Gives the lane's connection up and makes another: what is unanswered there is reported lost. For a
  // connection that a queue without answers holds up for all others.
  virtual void drop_publishing(PublishLane lane, std::string reason) = 0;

  // Ends the threads within `most`; what is unconfirmed then is reported lost. Blocks. Idempotent.
  virtual void stop(Ms most) = 0;
};

}  // namespace rung
