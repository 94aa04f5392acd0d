// The thread that publishes: one connection, one channel in confirm mode.
//
// A message waits in pending_, is encoded into the connection's buffer only as the socket takes it (so that
// little lies between the fence and the wire), and stands in outstanding_ until its confirm. Each Outgoing
// gets exactly one result, whatever happens.
//
// The fence: before every write of message bytes allow_publish_until is compared with the boot clock. When it
// has passed, what is pending is `fenced`; when bytes of a message lie unsent in the buffer, the connection
// is dropped rather than finished: a message that is cut is never delivered, so it is `fenced`, too.
//
// Rights: on each new channel the first publish is an empty message that no queue takes. Nothing else is sent
// until the broker has confirmed it. If the broker refuses it (403), our user has lost its rights: the
// connection counts as down, and what is pending waits for the next connection.
//
// Unproven exchanges: a publish to an exchange that has not answered yet on this connection is handed to
// another publisher (Role::unproven), which sends one message at a time. A refusal there affects nobody else.
//
// Bindings: what goes by <prefix>.return needs the binding of its queue, which Role::unproven and Role::probe
// make. Where the broker refuses it, the message goes by the default exchange. Where it does not answer, the
// message waits: with Role::unproven here, behind those for other queues; with Role::probe it is `lost`, and
// its caller decides when the queue is asked again.
//
// When the broker closes the channel (or hangs up) because of a message:
//   - 403 for one exchange: Role::main hands the message to the publisher for unproven exchanges. There it is
//     sent twice, each time on a new channel that has passed the check of our rights. Refused twice, it is
//     `returned`: only this exchange refuses us.
//   - alone on its way: it is `rejected`, with the broker's reason.
//   - several, and the reason names one (its exchange, user-id, expiration, size): that one is `rejected`, or
//   `returned` where its exchange is not there; what else is for that exchange is so for a second, unasked.
//   The broker
//     works in order: those before it are `lost` (taken, but not confirmed), those after it were not looked
//     at and are sent again.
//   - several, and the reason names none: all are sent again, one at a time, until it hits the culprit alone.
//   Those
//     that were taken the first time then arrive twice, as after any lost connection.
// A hang-up (connection.close) can also be the broker's own trouble: a message is rejected for it only the
// second time that it was alone.
//
// Thread: start, publish, allow_until, order_stop, join from any thread; it calls the sink on its own.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/backoff.h"
#include "plugin/rabbitmq/connection.h"
#include "plugin/rabbitmq/content.h"
#include "plugin/rabbitmq/outstanding.h"
#include "plugin/rabbitmq/proven.h"
#include "plugin/rabbitmq/voice.h"

namespace rung::rabbit {

// main: proven exchanges only. unproven: all others, one message at a time. probe: any.
enum class Role : std::uint8_t { main, unproven, probe };

// What the publishers of one broker have in common.
struct Siblings {
  Role role = Role::main;
  ProvenExchanges& proven;
  // Passes on what belongs to the other publisher: from main to unproven, or back.
  std::function<void(std::vector<Outgoing>)> pass_on;
  // Role::unproven: the broker refused every publish; main may not have noticed yet.
  std::function<void(std::string reason)> rights_lost;
};

class Publisher {
 public:
  Publisher(const BrokerOptions& options, Addresses& addresses, std::shared_ptr<Tls> tls, Voice& voice,
            Siblings siblings);
  ~Publisher();

  void start();
  void publish(std::vector<Outgoing> batch);
  void allow_until(BootMs deadline);
  void drop(std::string reason) { waker_.drop(std::move(reason)); }
  void order_stop(BootMs deadline) { waker_.stop(deadline); }
  void join();

 private:
  using How = PublishResult::How;

  void run();
  Result<std::unique_ptr<Connection>> connect();
  Result<void> open_channel(Connection& connection);
  void send_check(Connection& connection);
  void check_passed();
  Result<void> channel_closed(Connection& connection, const Closing& why);
  Error serve(Connection& connection);
  Result<void> read(Connection& connection);
  void take_frame(Connection& connection, const Frame& frame);
  void take_returned();
  void confirmed(std::uint64_t tag, bool multiple, bool ack);

  // --- sending ---
  void take_batch();
  Result<void> send(Connection& connection);
  Result<void> write_more(Connection& connection);
  const std::string* missing(const std::string& exchange);
  bool is_anothers(const Outgoing& outgoing) const;
  void route(Sent& sent) const;
  std::string proof_of(const Outgoing& outgoing) const;
  Result<bool> bound(Connection& connection, Sent& sent);
  void refused_binding(Sent sent, const std::string& key, const std::string& why);
  Result<void> bind(Connection& connection, const std::string& key);
  Result<void> begin_message(Connection& connection);
  void continue_body(Connection& connection);
  bool fence_passed() const;
  void fence_pending();
  bool done_for_now() const;  // nothing left to send or to wait for

  // --- when it goes wrong ---
  void connection_over(Connection* connection, const Error& why);
  std::vector<Sent> take_unsettled();
  void on_refusal(const Closing& why, bool hung_up);
  void refused(Sent sent, const Closing& why);
  void refused_return(Sent sent, const Closing& why);
  void remember_refusal(const Outgoing& outgoing, const std::string& why);
  void pass_everything_on();
  bool answer_overdue() const;
  void result(std::uint64_t token, How how, std::string reason);
  void give_up_pending();
  void hand_over();
  void idle(BootMs until);
  BootMs next_turn() const;

  const BrokerOptions& options_;
  Addresses& addresses_;
  const std::shared_ptr<Tls> tls_;
  Voice& voice_;
  const Siblings siblings_;
  const std::string return_exchange_;
  Waker waker_;
  std::thread thread_;
  std::atomic<std::int64_t> allow_until_{0};  // BootMs

  std::mutex mutex_;
  std::vector<Outgoing> mailbox_;  // guarded by mutex_

  // The thread's own.
  Backoff backoff_;
  std::string at_;  // the address of the connection
  std::deque<Sent> pending_;
  Outstanding outstanding_;
  std::uint64_t writing_ = 0;  // the tag whose body is being written; 0 = none
  std::size_t body_at_ = 0;    // of its body, the bytes written
  std::size_t suspects_ = 0;   // so many at the front of pending_ go one at a time
  bool suspect_sent_ = false;  // what is outstanding is a suspect: nothing goes beside it
  bool blocked_ = false;
  bool checking_ = false;          // the check of our rights has no answer yet
  bool rights_lost_ = false;       // the check was refused on this connection
  std::optional<Sent> refused_;    // refused twice; `returned` once the check passes again
  std::string last_proof_;         // Role::unproven: of the last message sent
  BootMs sent_at_;                 // when the last message was whole in the buffer
  std::vector<Outgoing> pass_on_;  // at the end of the turn
  Content content_;
  Outgoing returned_;  // whose content is being put together
  std::string returned_reason_;
  std::vector<PublishResult> results_;  // for the sink, at the end of the turn
  std::vector<Outgoing> batch_;
  struct Missing {
    std::string why;
    BootMs until;
  };
  std::unordered_map<std::string, Missing> missing_;  // exchanges that were not there
  std::string header_;                                // scratch
  std::optional<Closing> closing_;                    // connection.close has come
};

}  // namespace rung::rabbit
