// What becomes of a publish that the broker did not simply confirm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/publish/message_writer.h"
#include "plugin/rabbitmq/publish/routing.h"
#include "plugin/rabbitmq/wire/codec.h"
#include "plugin/rabbitmq/wire/connection.h"

namespace rung::rabbit {

// Collects what became of messages during a turn and delivers it at the end: results to the sink, and
// messages to another publisher. Thread: one thread per object.
class PublishOutcomes {
 public:
  using How = PublishResult::How;
  using PassOn = std::function<void(std::vector<Outgoing>)>;

  // REQUIRES: `sink` outlives it.
  PublishOutcomes(BrokerSink& sink, PassOn pass_on) : sink_(sink), pass_on_(std::move(pass_on)) {}

  void result(std::uint64_t token, How how, std::string reason) {
    results_.push_back({token, how, std::move(reason)});
  }
  // Returned, because its exchange does not exist or refuses us.
  void no_exchange(std::uint64_t token, std::string reason) {
    results_.push_back({token, How::returned, std::move(reason), true});
  }
  // For callers that append several results.
  std::vector<PublishResult>& results() { return results_; }
  void pass_on(Outgoing outgoing) { passed_on_.push_back(std::move(outgoing)); }

  void hand_over() {
    if (!passed_on_.empty()) pass_on_(std::exchange(passed_on_, {}));
    if (!results_.empty()) sink_.on_published(std::exchange(results_, {}));
  }

 private:
  BrokerSink& sink_;
  const PassOn pass_on_;
  std::vector<PublishResult> results_;
  std::vector<Outgoing> passed_on_;
};

// A message that comes back because no queue takes it: basic.return and its content, matched with the
// outstanding messages. Thread: one thread per object.
class ReturnedMessage {
 public:
  void begin(const amqp_basic_return_t& method) {
    exchange_ = view(method.exchange);
    routing_key_ = view(method.routing_key);
    reason_ = std::to_string(method.reply_code) + " " + std::string(view(method.reply_text)) +
              (exchange_.empty() ? ": no queue " : ": no route for ") + routing_key_;
    content_.begin();
  }
  // A header or body frame. The last one marks the message as returned.
  void add(const Frame& frame, Outstanding& outstanding) {
    if (!content_.add(frame)) return;
    outstanding.returned(exchange_, routing_key_, content_.take(), std::move(reason_));
  }

 private:
  std::string exchange_, routing_key_, reason_;
  Content content_;
};

// Handles messages in flight when the broker closes the channel, hangs up, or the connection is lost. Each
// message gets its result, goes back into the queue, or goes to another publisher.
//
// When the broker closes the channel (or hangs up) because of a message:
//   - 403 for one exchange: Role::main passes the message to the publisher for unproven exchanges. That one
//     sends it twice, each time on a new channel that has passed the check of our rights. If it is refused
//     twice, it is `returned`: only this exchange refuses us.
//   - Only one message was in flight: it is `rejected`, with the broker's reason.
//   - Several, and the reason names one, by its exchange or its size: that one is `rejected`, or `returned`
//     if its exchange does not exist; for one second, further messages for that exchange are then `returned`
//     without a publish. The broker works in order: earlier messages are `lost` (accepted, but not
//     confirmed), later ones were not processed and are sent again.
//   - Several, and the reason names none: all are sent again, one at a time, until the culprit fails alone.
//     Those that were accepted the first time then arrive twice, as after any lost connection.
// The broker's own trouble can also cause a hang-up (connection.close): a message is rejected for it only the
// second time that it was alone in flight.
//
// Thread: one thread per object.
class PublishFailures {
 public:
  using How = PublishResult::How;

  // The publisher's own objects. REQUIRES: they outlive it.
  struct Deps {
    Routing& routing;
    Outstanding& outstanding;
    SendQueue& queue;
    PublishOutcomes& outcomes;
  };
  explicit PublishFailures(Deps deps) : deps_(deps) {}

  // The broker closed the channel or the connection because of an outstanding message.
  void channel_closed(const Closing& why) { refused(why, false); }
  void hung_up(const Closing& why) { refused(why, true); }
  // The connection has ended. `written`: bytes sent before that (Connection::written()). `fenced`: we may no
  // longer publish, so a truncated message is not sent again.
  void connection_lost(std::uint64_t written, bool fenced, const std::string& why);

  // The check of our rights passed: the message that was refused twice is `returned`.
  void rights_confirmed();
  // Nobody knows whether other exchanges accept our messages: the message goes back into the queue.
  void rights_unknown();
  bool waits_for_rights() const { return refused_twice_.has_value(); }

  // The broker refused to bind the message's queue: the next publisher uses the default exchange.
  void binding_refused(Sent sent, const std::string& why);

 private:
  std::vector<Sent> take_unsettled();
  void refused(const Closing& why, bool hung_up);
  void refuse(Sent sent, const Closing& why);
  void refuse_return_exchange(Sent sent, const Closing& why);

  const Deps deps_;
  std::optional<Sent> refused_twice_;  // waits for the check of our rights on a new channel
};

}  // namespace rung::rabbit
