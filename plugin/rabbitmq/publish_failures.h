// Handles messages in flight when the broker closes the channel, hangs up, or the connection is lost. Each
// message gets its result, goes back into the queue, or goes to another publisher.
//
// When the broker closes the channel (or hangs up) because of a message:
//   - 403 for one exchange: Role::main passes the message to the publisher for unproven exchanges. That one
//     sends it twice, each time on a new channel that has passed the check of our rights. If it is refused
//     twice, it is `returned`: only this exchange refuses us.
//   - Only one message was in flight: it is `rejected`, with the broker's reason.
//   - Several, and the reason names one (its exchange, user-id, expiration, size): that one is `rejected`, or
//     `returned` if its exchange does not exist; for one second, further messages for that exchange are then
//     `returned` without a publish. The broker works in order: earlier messages are `lost` (accepted, but not
//     confirmed), later ones were not processed and are sent again.
//   - Several, and the reason names none: all are sent again, one at a time, until the culprit fails alone.
//     Those that were accepted the first time then arrive twice, as after any lost connection.
// The broker's own trouble can also cause a hang-up (connection.close): a message is rejected for it only the
// second time that it was alone in flight.
//
// Thread: one thread per object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plugin/rabbitmq/connection.h"
#include "plugin/rabbitmq/outstanding.h"
#include "plugin/rabbitmq/publish_outcomes.h"
#include "plugin/rabbitmq/refused_exchanges.h"
#include "plugin/rabbitmq/routing.h"
#include "plugin/rabbitmq/send_queue.h"
#include "src/core/clock.h"

namespace rung::rabbit {

class PublishFailures {
 public:
  using How = PublishResult::How;

  // The publisher's own objects. REQUIRES: they outlive it.
  struct Deps {
    const Clock& clock;
    const Routing& routing;
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
  void binding_refused(Sent sent, const std::string& key, const std::string& why);

  // Why the message's exchange cannot be used now; nullptr if it can be tried. Valid until the next call.
  const std::string* refusal_of(const Outgoing& outgoing) {
    if (refused_exchanges_.empty()) return nullptr;  // the usual case: avoids reading the clock
    return refused_exchanges_.reason(outgoing.exchange, deps_.clock.boot());
  }

 private:
  std::vector<Sent> take_unsettled();
  void refused(const Closing& why, bool hung_up);
  void refuse(Sent sent, const Closing& why);
  void refuse_return_exchange(Sent sent, const Closing& why);
  void remember_refusal(const Outgoing& outgoing, const std::string& why);

  const Deps deps_;
  RefusedExchanges refused_exchanges_;
  std::optional<Sent> refused_twice_;  // waits for the check of our rights on a new channel
};

}  // namespace rung::rabbit
