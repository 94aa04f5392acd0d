// The thread that takes in: one connection, one channel, the inlets consumed.
//
// Thread: start, ack, stop_intake, pause_intake, stop from any thread; it calls the sink on its own.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/ack_window.h"
#include "plugin/rabbitmq/backoff.h"
#include "plugin/rabbitmq/connection.h"
#include "plugin/rabbitmq/content.h"
#include "plugin/rabbitmq/voice.h"

namespace rung::rabbit {

class Consumer {
 public:
  Consumer(const BrokerOptions& options, Addresses& addresses, std::shared_ptr<Tls> tls, Voice& voice);
  ~Consumer();

  void start();
  void ack(std::vector<DeliveryTag> tags);
  void stop_intake();
  void pause_intake(bool yes);
  bool stands(std::uint32_t connection) const;  // Broker::stands
  void requeue(std::vector<DeliveryTag> tags);
  void order_stop(BootMs deadline) { waker_.stop(deadline); }
  void join();

 private:
  void run();
  Result<std::unique_ptr<Connection>> connect();
  Result<void> prepare(Connection& connection);
  Ms time_to_prepare(const Address& address);
  Result<void> set_up(Connection& connection, BootMs deadline);
  // Until the connection is over: why.
  Error serve(Connection& connection);
  Result<void> read(Connection& connection);
  void take_frame(Connection& connection, const Frame& frame);
  void on_cancelled(Connection& connection, const Frame& frame);
  void delivered(Delivery delivery);
  bool write_acks(Connection& connection);  // whether there were any
  void release(std::uint64_t tag);
  void ask_again(Connection& connection);
  void cancel_consumers(Connection& connection);
  Result<void> pause_or_go_on(Connection& connection);
  Result<void> give_back(Connection& connection);
  void hand_over();
  std::optional<Ms> stood_still();

  const BrokerOptions& options_;
  Addresses& addresses_;
  const std::shared_ptr<Tls> tls_;
  Voice& voice_;
  Waker waker_;
  std::thread thread_;

  std::mutex mutex_;
  std::vector<DeliveryTag> acks_;     // guarded by mutex_
  std::vector<DeliveryTag> requeue_;  // guarded by mutex_
  std::atomic<bool> intake_stopped_{false};
  std::atomic<bool> intake_paused_{false};
  std::atomic<bool> give_back_due_{false};     // paused since we last looked, if only for a moment
  std::atomic<std::uint32_t> standing_{0};     // connection_number_; 0 = there is none
  std::atomic<std::int64_t> last_turn_ms_{0};  // BootMs
  const Ms still_most_;                        // between two turns: beyond it the broker may have given us up

  // The thread's own.
  Backoff backoff_;
  std::size_t prepared_in_vain_ = 0;     // connections in a row
  std::uint32_t connection_number_ = 0;  // one more, too, where all was given back
  AckWindow window_;
  std::unordered_map<std::uint64_t, std::size_t> held_;  // bodies' bytes of what the sink has, by tag
  std::size_t held_bytes_ = 0;
  std::vector<std::uint64_t> shed_;  // let go of for want of room: unacked, to be asked for again
  Content content_;
  Delivery incoming_;                 // whose content is being put together
  std::vector<Delivery> deliveries_;  // for the sink, at the end of the turn
  std::vector<DeliveryTag> taken_acks_;
  std::vector<std::uint64_t> tags_;
  std::vector<AckFrame> frames_;
  bool cancelled_by_broker_ = false;   // a queue was deleted: declare and consume again
  std::vector<std::string> repaired_;  // queues whose consumer the broker cancelled: for the report
  bool given_back_ = false;            // pause_intake has been carried out: nothing is consumed
  bool consumers_cancelled_ = false;   // stop_intake has been carried out on this connection
  std::optional<Closing> closing_;     // the broker closed our channel or connection
};

}  // namespace rung::rabbit
