// An intake: one connection with one channel, on which it consumes Rung's own queues or the error queues.
//
// Thread: start, ack, requeue, stop_intake, pause_intake, stands, wake, order_stop and join from any; it
// calls the sink and its queues on its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "plugin/rabbitmq/consume/intake_state.h"
#include "plugin/rabbitmq/topology/topology.h"
#include "plugin/rabbitmq/wire/calls.h"
#include "plugin/rabbitmq/wire/codec.h"
#include "plugin/rabbitmq/wire/connection_loop.h"
#include "src/core/base/result.h"

namespace rung::rabbit {

// What a Consumer consumes: Rung's own queues (OwnQueues) or error queues (error_queues.h). Its methods
// are called on the consumer's thread.
class ConsumedQueues {
 public:
  virtual ~ConsumedQueues() = default;

  // A new connection, before anything is consumed on it: declares what is needed.
  virtual Result<void> declare(const Calls& calls) = 0;
  // The connection is ready; and it has ended, or could not be made.
  virtual void up() {}
  virtual void down(const Error&) {}
  // A new channel: nothing is consumed on it.
  virtual void begin_channel() = 0;

  virtual Result<void> consume(const Calls& calls) = 0;
  // Sends basic.cancel and waits for the answers: what the broker sent before has arrived by then.
  virtual Result<void> cancel(const Calls& calls) = 0;
  // The same, without waiting.
  virtual void send_cancel(Connection& connection) = 0;

  // Whether change() has something to do. `consuming`: the intake is neither paused nor stopped.
  virtual bool must_change(bool consuming) const = 0;
  enum class Changed : std::uint8_t {
    done,
    channel_closed,  // by the broker, because of one queue: go on with a new channel
  };
  // Error: the connection is of no use any more.
  virtual Result<Changed> change(const Calls& calls, bool consuming) = 0;
  // The broker has cancelled this consumer.
  virtual void cancelled(std::string_view consumer_tag) = 0;

  struct Origin {
    Inlet inlet = Inlet::failed;
    std::string source = {};  // Inlet::error: the queue
  };
  virtual Origin origin(std::string_view consumer_tag) const = 0;
};

class Consumer final : private ConnectionLoop::Handler {
 public:
  struct Settings {
    std::uint8_t intake = 0;    // IntakeSession::intake
    std::size_t max_bytes = 0;  // of unacked messages, in memory
    ConnectionLoop::Settings loop;
  };
  // REQUIRES: `queues` outlives it.
  Consumer(ConnectionLoop::Deps deps, ConsumedQueues& queues, Settings settings);
  ~Consumer() override;

  void start() { loop_.start(); }
  void ack(std::vector<DeliveryTag> tags);
  void requeue(std::vector<DeliveryTag> tags);
  void stop_intake();
  void pause_intake(bool yes);
  bool stands(const IntakeSession& session) const { return epoch_.stands(session, loop_.now()); }
  // Its queues have something to change.
  void wake() { loop_.wake(); }
  void order_stop(BootMs deadline) { loop_.order_stop(deadline); }
  void join() { loop_.join(); }

 private:
  // --- a new connection ---
  Result<void> prepare(Connection& connection) override;
  Ms time_to_prepare(const Address& address) const;
  void begin_channel();
  Result<void> reopen_channel(Connection& connection);
  bool consuming() const { return intake_.consuming() && !intake_.stopped(); }

  // --- one turn ---
  Result<BootMs> turn(Connection& connection) override;
  void over(const ConnectionLoop::End& end) override;
  Result<bool> read(Connection& connection);
  void take_frame(Connection& connection, const Frame& frame);
  void on_cancelled(Connection& connection, const Frame& frame);
  void delivered(Delivery delivery, std::size_t bytes);
  void hand_over();
  bool write_acks(Connection& connection);  // whether there were any
  Result<void> change(Connection& connection);
  Result<void> pause_or_go_on(Connection& connection);
  Result<void> return_deliveries(Connection& connection);
  // Deliveries that come meanwhile are taken.
  Calls calls(Connection& connection);

  const BrokerOptions& options_;
  ConsumedQueues& queues_;
  Mailbox<DeliveryTag> acks_, requeues_;
  IntakeSwitch intake_;
  IntakeEpoch epoch_;

  // Used by the consumer's thread only.
  Unacked unacked_;
  Content content_;
  Delivery incoming_;                    // its content is still being received
  std::vector<Delivery> deliveries_;     // for the sink, at the end of the turn
  std::size_t failed_preparations_ = 0;  // in a row

  ConnectionLoop loop_;  // last: it uses the others
};

// The queues <prefix>.failed, .results and .delay, as a Consumer consumes them. Declares the topology. The
// consumer tag is the queue's name. Thread: the consumer's.
class OwnQueues final : public ConsumedQueues {
 public:
  // REQUIRES: all outlive it.
  OwnQueues(const BrokerOptions& options, OwnQueueTypes& types, BrokerSink& sink);

  Result<void> declare(const Calls& calls) override { return declare(calls, Pass::start); }
  // The queues are still to be reported: RabbitMQ 4.3 ends the connection if a quorum queue is declared and
  // bound again before its deletion has come to its end.
  void begin_channel() override { cancelled_.due = false; }
  Result<void> consume(const Calls& calls) override;
  Result<void> cancel(const Calls& calls) override;
  void send_cancel(Connection& connection) override;
  bool must_change(bool) const override { return cancelled_.due; }
  Result<Changed> change(const Calls& calls, bool consuming) override;
  void cancelled(std::string_view consumer_tag) override;
  Origin origin(std::string_view consumer_tag) const override;

 private:
  Result<void> declare(const Calls& calls, Pass pass);

  const BrokerOptions& options_;
  OwnQueueTypes& types_;
  BrokerSink& sink_;
  std::vector<Declared> inlets_;  // those that are consumed
  // The broker has cancelled consumers, because their queues were deleted or a consumer timed out: declare
  // and consume again.
  struct Cancelled {
    bool due = false;
    std::vector<std::string> queues;  // for the report
  } cancelled_;
};

}  // namespace rung::rabbit
