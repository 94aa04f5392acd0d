// The consumer: one connection with one channel, which consumes the inlets and the error
// queues.
//
// Thread: start, ack, requeue, stop_intake, pause_intake, stands, order_stop and join from any; it calls the
// sink on its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/ack_mailbox.h"
#include "plugin/rabbitmq/ack_writer.h"
#include "plugin/rabbitmq/connection_loop.h"
#include "plugin/rabbitmq/content.h"
#include "plugin/rabbitmq/error_consumers.h"
#include "plugin/rabbitmq/held_deliveries.h"
#include "plugin/rabbitmq/intake_epoch.h"
#include "plugin/rabbitmq/intake_switch.h"

namespace rung::rabbit {

class Consumer {
 public:
  explicit Consumer(ConnectionLoop::Deps deps);
  ~Consumer();

  void start() { loop_.start(); }
  void ack(std::vector<DeliveryTag> tags);
  void requeue(std::vector<DeliveryTag> tags);
  void stop_intake();
  void pause_intake(bool yes);
  bool stands(std::uint32_t connection) const { return epoch_.stands(connection, loop_.now()); }
  // Which error queues to consume; wake() after a change.
  ErrorConsumers& error_queues() { return errors_; }
  void wake() { loop_.wake(); }
  void order_stop(BootMs deadline) { loop_.order_stop(deadline); }
  void join() { loop_.join(); }

 private:
  // --- a new connection ---
  Result<void> prepare(Connection& connection);
  Ms time_to_prepare(const Address& address) const;
  void begin_channel();
  Result<void> apply_error_queues(Connection& connection);
  Result<void> set_up(Connection& connection, BootMs deadline);
  Result<void> report_repaired(Connection& connection, BootMs deadline);

  // --- one turn ---
  Result<BootMs> turn(Connection& connection);
  Result<bool> read(Connection& connection);
  void take_frame(Connection& connection, const Frame& frame);
  void on_cancelled(Connection& connection, const Frame& frame);
  void delivered(Delivery delivery);
  void hand_over();
  bool write_acks(Connection& connection);  // whether there were any
  Result<void> set_up_again(Connection& connection);
  Result<void> pause_or_go_on(Connection& connection);
  Result<void> return_deliveries(Connection& connection);
  void cancel_consumers(Connection& connection);
  Connection::Others take_others(Connection& connection);

  const BrokerOptions& options_;
  AckMailbox acks_;
  IntakeSwitch intake_;
  IntakeEpoch epoch_;
  ErrorConsumers errors_;

  // Used by the consumer's thread only.
  HeldDeliveries held_;
  AckWriter ack_writer_;
  Content content_;
  Delivery incoming_;                    // its content is still being received
  std::vector<Delivery> deliveries_;     // for the sink, at the end of the turn
  std::size_t failed_preparations_ = 0;  // in a row
  // The broker has cancelled consumers, because their queues were deleted or a consumer timed out: declare
  // and consume again.
  struct Cancelled {
    bool due = false;
    std::vector<std::string> queues;  // for the report
  } cancelled_;

  ConnectionLoop loop_;  // last: its callbacks use the others
};

}  // namespace rung::rabbit
