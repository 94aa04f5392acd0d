// The publisher: one connection, one channel in confirm mode.
//
// A message waits in the SendQueue. The MessageWriter writes it as far as the socket accepts it and the fence
// allows. It then stays in Outstanding until its confirm. Each Outgoing gets exactly one result, whatever
// happens. PublishFailures handles failures; the RightsCheck runs before the first message on a channel.
//
//   publish() -> mailbox -> SendQueue -> MessageWriter -> socket      (the fence stops the writer)
//                                        Outstanding  <- socket: confirm, nack, return
//                                        PublishOutcomes -> the sink, or another publisher
//
// A message for an unproven exchange goes to another publisher (Routing). If the broker does not answer a
// bind, the message waits: with Role::unproven here, behind messages for other queues. With Role::probe it is
// `lost`, and its caller decides when to try the queue again.
//
// Thread: start, publish, allow_until, drop, order_stop, join from any thread; it calls the sink on its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/publish/message_writer.h"
#include "plugin/rabbitmq/publish/publish_failures.h"
#include "plugin/rabbitmq/publish/routing.h"
#include "plugin/rabbitmq/wire/connection_loop.h"

namespace rung::rabbit {

// Links the publishers of one broker.
struct PublisherPeers {
  ProvenExchanges& proven;
  // Passes on messages that belong to the other publisher: from main to unproven, or back.
  std::function<void(std::vector<Outgoing>)> pass_on;
  // Role::unproven: the broker refused every publish; main may not have noticed yet. May be empty.
  std::function<void(std::string reason)> rights_lost;
};

class Publisher final : private ConnectionLoop::Handler {
 public:
  Publisher(ConnectionLoop::Deps deps, Role role, PublisherPeers peers);
  ~Publisher() override;

  void start() { loop_.start(); }
  void publish(std::vector<Outgoing> batch);
  void allow_until(BootMs deadline);
  void drop(std::string reason) { loop_.drop(std::move(reason)); }
  void order_stop(BootMs deadline) { loop_.order_stop(deadline); }
  void join();

 private:
  using How = PublishResult::How;

  // --- a new channel ---
  Result<void> prepare(Connection& connection) override;
  Result<void> open_channel(Connection& connection);
  Result<void> channel_closed(Connection& connection, const Closing& why);

  // --- one turn ---
  Result<BootMs> turn(Connection& connection) override;
  BootMs idle() override;
  BootMs next_turn() const;
  BootMs answer_due() const;  // Role::unproven; far in the future if no answer is awaited
  bool done_for_now() const;  // nothing left to send or to wait for
  Result<bool> read(Connection& connection);
  void take_frame(Connection& connection, const Frame& frame);
  void confirmed(Connection& connection, std::uint64_t tag, bool multiple, bool ack);
  void unblocked();
  Calls calls(Connection& connection);  // answers to publishes that come meanwhile are taken

  // --- sending ---
  void take_batch();
  bool fence_passed() const { return writer_.fence_passed(loop_.now()); }
  void fence_queue();
  Result<void> send(Connection& connection);
  Result<void> write_more(Connection& connection);
  Result<void> begin_message(Connection& connection);
  Result<bool> bind(Connection& connection, Sent& sent);

  // --- the end of a connection, or of the publisher ---
  void over(const ConnectionLoop::End& end) override;
  void stopped() override;
  void pass_everything_on();

  const BrokerOptions& options_;
  const std::function<void(std::string)> rights_lost_;  // PublisherPeers; may be empty
  Mailbox<Outgoing> mailbox_;

  // Used by the publisher's thread only, except the writer's fence.
  Routing routing_;
  SendQueue queue_;
  Outstanding outstanding_;
  PublishOutcomes outcomes_;
  PublishFailures failures_;
  MessageWriter writer_;
  RightsCheck rights_;
  ReturnedMessage returned_;
  bool blocked_ = false;  // connection.blocked: an alarm in the broker

  ConnectionLoop loop_;  // last: it uses the others
};

}  // namespace rung::rabbit
