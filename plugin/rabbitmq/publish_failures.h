// What becomes of the messages on their way when the broker closes the channel, hangs up, or the connection
// is lost. Each gets its result, is put back into the queue, or goes to another publisher.
//
// When the broker closes the channel (or hangs up) because of a message:
//   - 403 for one exchange: Role::main hands the message to the publisher for unproven exchanges. There it is
//     sent twice, each time on a new channel that has passed the check of our rights. Refused twice, it is
//     `returned`: only this exchange refuses us.
//   - alone on its way: it is `rejected`, with the broker's reason.
//   - several, and the reason names one (its exchange, user-id, expiration, size): that one is `rejected`, or
//     `returned` where its exchange is not there; what else is for that exchange is so for a second, unasked.
//     The broker works in order: those before it are `lost` (taken, but not confirmed), those after it were
//     not looked at and are sent again.
//   - several, and the reason names none: all are sent again, one at a time, until it hits the culprit alone.
//     Those that were taken the first time then arrive twice, as after any lost connection.
// A hang-up (connection.close) can also be the broker's own trouble: a message is rejected for it only the
// second time that it was alone.
//
// Thread: one thread an object.
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

  // The publisher's own. REQUIRES: they outlive it.
  struct Deps {
    const Clock& clock;
    const Routing& routing;
    Outstanding& outstanding;
    SendQueue& queue;
    PublishOutcomes& outcomes;
  };
  explicit PublishFailures(Deps deps) : deps_(deps) {}

  // The broker closed the channel or the connection because of what is outstanding.
  void channel_closed(const Closing& why) { refused(why, false); }
  void hung_up(const Closing& why) { refused(why, true); }
  // The connection is gone. `written`: the bytes that left before (Connection::written()). `fenced`: we may
  // not publish any more, so what is cut is not sent again.
  void connection_lost(std::uint64_t written, bool fenced, const std::string& why);

  // The check of our rights passed: the message that was refused twice is `returned`.
  void rights_confirmed();
  // Nobody knows whether the others would have been taken: it goes back into the queue.
  void rights_unknown();
  bool waits_for_rights() const { return refused_twice_.has_value(); }

  // The broker refused to bind its queue: whoever publishes it next takes the default exchange.
  void binding_refused(Sent sent, const std::string& key, const std::string& why);

  // Why its exchange cannot be published to now; nullptr where it can be tried. Valid until the next call.
  const std::string* refusal_of(const Outgoing& outgoing) {
    if (refused_exchanges_.empty()) return nullptr;  // the usual case: it costs no look at the clock
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
