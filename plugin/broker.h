// The interface that a broker implements for Rung. rabbitmq/ implements it with RabbitMQ,
// tests/support/memory for tests. The bridge knows nothing else about a broker.
//
// Thread: call every method of Broker from any thread; all return at once except stop(). The sink is called
// on the broker's own threads and must not block; deliveries and results come in batches.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/broker_place.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/message/message.h"

namespace rung {

// The queues that are consumed: <prefix>.failed ..., and error queues (BrokerOptions::error_queues).
enum class Inlet : std::uint8_t { failed, results, delay, error };

// How many deliveries of a message a queue allows.
struct DeliveryLimit {
  std::string queue;
  std::int64_t deliveries = std::numeric_limits<std::int64_t>::max();  // no limit
};

// A broker has one intake or several, each with a connection of its own: the RabbitMQ plugin consumes error
// queues apart from Rung's own queues. An intake begins a session with each connection, with each channel,
// and with each pause_intake(true); the numbers grow from 1. A new session voids all deliveries of earlier
// sessions of the same intake: an ack for them does nothing, and the broker redelivers them, to us or to
// another consumer.
struct IntakeSession {
  std::uint32_t number = 0;  // 0 = of no delivery
  std::uint8_t intake = 0;

  bool operator==(const IntakeSession&) const = default;
  // Whether `newer` voids the deliveries of this session.
  bool before(const IntakeSession& newer) const {
    return number != 0 && intake == newer.intake && number < newer.number;
  }
  IntakeSession next() const { return {number + 1, intake}; }
};

// Identifies one delivery to the broker that made it, for ack(), requeue() and stands(). Opaque: the numbers
// belong to the plugin, and only a plugin reads them (tests/rooms_check).
struct DeliveryTag {
  IntakeSession session;
  std::uint64_t tag = 0;
};

struct Delivery {
  DeliveryTag tag;
  Inlet inlet = Inlet::failed;
  bool redelivered = false;
  // How it was published to the inlet. exchange: the inlet itself, <prefix>.failed ..., or another that
  // routes to it.
  std::string exchange, routing_key;
  Message message;  // without the headers that the broker itself added: they are in `facts`
  // failure: for Inlet::failed, and for Inlet::error what its dialect finds; delay: for Inlet::delay.
  BrokerFacts facts{};
  std::string source{};  // Inlet::error: the error queue
  bool expired = false;  // by its own TTL, in its inlet; the broker had another place for it
};

// The connection that publishes a message. probe: to find out whether a queue answers; if it does not, it
// delays only other probes.
enum class PublishLane : std::uint8_t { main, probe };

struct Outgoing {
  // The caller's own, unique among publishes in flight; returned in PublishResult.
  std::uint64_t token = 0;
  std::string exchange;  // "" = to the queue that routing_key names; else the exchange routes it
  std::string routing_key;
  Message message;
  PublishLane lane = PublishLane::main;
  // If not empty, the message goes to this queue only, with `routing_key` as its routing key; `exchange` is
  // then "". A broker that cannot do that still delivers it to the queue, with the queue's name as routing
  // key. If the broker refused to, the result is `confirmed` with the reason.
  std::string queue{};
};

struct PublishResult {
  enum class How : std::uint8_t {
    confirmed,  // in the queue, and on disk if both are durable
    returned,   // no queue takes it; nothing was delivered
    nacked,     // the broker refused it (queue full, internal error); nothing was delivered
    lost,       // the connection ended before the answer: delivered or not, nobody knows
    fenced,     // not sent, because allow_publish_until had passed
    rejected,   // cannot be sent at all: a name too long for the broker, headers too large ...
  };
  std::uint64_t token = 0;
  How how = How::confirmed;
  std::string reason;
  // returned: because its exchange does not exist, or refuses us; else because no queue takes it.
  bool no_exchange = false;
};

struct BrokerStatus {
  bool consuming = false;   // the connection that consumes Rung's own queues is up
  bool publishing = false;  // the publishing connection is up
  bool blocked = false;     // an alarm in the broker (memory, disk): nothing is sent
  std::string reason;       // why the status last got worse
  bool refused = false;     // a connection is down because the broker refuses us: login, right, declaration
  std::string consuming_at, publishing_at;  // "host:port", from the last time that each was up
  bool operator==(const BrokerStatus&) const = default;
};

// The result of a topology check.
struct TopologyReport {
  // Exchanges and queues that were missing and have been declared again ("exchange rung.failed"). A missing
  // binding is restored too, but need not be listed: RabbitMQ cannot tell whether one exists.
  std::vector<std::string> repaired;
  std::string problem;  // unrepaired faults: the broker's reason and the command that helps; "" = nothing
  // The way back to one queue (Outgoing::queue) was missing or is not as we declared it.
  bool return_route_changed = false;
};

// The error queues, after a change.
struct ErrorQueueReport {
  // In alphabetical order: those that the broker lets us consume; also while the connection is away, which is
  // then the problem.
  std::vector<std::string> consumed;
  std::string problem;  // why a queue that exists, a pattern, or all cannot be consumed; "" = nothing
};

class BrokerSink {
 public:
  virtual ~BrokerSink() = default;
  virtual void on_deliveries(std::vector<Delivery> deliveries) = 0;  // all of one session
  virtual void on_published(std::vector<PublishResult> results) = 0;
  virtual void on_status(const BrokerStatus& status) = 0;
  // After each check of the topology, and when the broker refuses to declare it.
  virtual void on_topology(const TopologyReport& report) = 0;
  virtual void on_error_queues(const ErrorQueueReport&) {}
  // After each claim(), and then with each check of the topology.
  virtual void on_place(const PlaceReport&) {}
};

// Limits that the broker's design imposes on publishers.
struct BrokerLimits {
  // Publishes in flight for one queue until it has answered, and again after a loss. So few that a queue
  // which never answers does not block the other queues on its connection.
  std::size_t first_window = 16;
};

class Broker {
 public:
  virtual ~Broker() = default;

  // Both never change. name: for human-readable texts, a constant.
  virtual std::string_view name() const = 0;
  virtual BrokerLimits limits() const = 0;

  // Starts the threads. They connect, declare the topology and consume in the background, retrying with
  // backoff. Fails only for errors that waiting cannot fix (a URL that does not parse, a missing CA file).
  // REQUIRES: the sink outlives stop().
  virtual Result<void> start(BrokerSink& sink) = 0;

  // Reads whose place this is (on_place); if `mark`, and nobody has marked it yet, marks it as the
  // database's. The mark outlives every process, and anybody who connects to the place can read it.
  virtual void claim(std::string database, bool mark) = 0;
  // From now on only connections to the broker of that name consume and publish; one to another is dropped.
  virtual void serve_only(std::string cluster) = 0;

  // Each message gets exactly one PublishResult: once the broker surely has it, or when the connection is
  // lost, or at stop.
  virtual void publish(std::vector<Outgoing> batch) = 0;

  virtual void ack(std::vector<DeliveryTag> tags) = 0;

  // Stops further deliveries; unacked messages stay unacked. For drain.
  virtual void stop_intake() = 0;

  // True: stops deliveries and returns unacked messages to the broker, for other consumers. A new session
  // begins in each intake, and stands() is false for earlier deliveries. False: resumes deliveries. Before
  // start(): whether it begins paused.
  virtual void pause_intake(bool yes) = 0;

  // The fence: nothing is written to the publishing socket after this instant (0 = never allowed). Initially
  // 0.
  virtual void allow_publish_until(BootMs deadline) = 0;

  // Whether the session of a delivery is still current, as far as is known at this moment. If not, the broker
  // redelivers it, to another consumer or to us: abandon what is not committed yet. Also false after this
  // process stalled for so long that the broker may have given up the connection.
  virtual bool stands(const DeliveryTag& tag) const = 0;

  // Not now: asks the broker to redeliver these. Like ack(), it does nothing for deliveries of an earlier
  // session.
  virtual void requeue(std::vector<DeliveryTag> tags) = 0;

  // Drops the lane's connection and opens another; unanswered publishes there are reported lost. For a
  // connection that an unresponsive queue blocks for all others.
  virtual void drop_publishing(PublishLane lane, std::string reason) = 0;

  // Ends the threads within `most`; reports publishes still unconfirmed as lost. Blocks. Idempotent.
  virtual void stop(Ms most) = 0;
};

}  // namespace rung
