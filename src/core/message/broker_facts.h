// What a broker's plugin reports of a message in addition to what its publisher wrote: why it failed, how
// long to delay it, and which headers are the broker's own. The names of those headers stay in the plugin,
// except in texts that people read. Thread: values; pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/core/base/time.h"
#include "src/core/message/message.h"

namespace rung {

// What the broker recorded of a message's last failure.
struct FailureFacts {
  // Why: rejected, expired, maxlen or delivery_limit, as in retry-reason, or the broker's own term. "" = not
  // known.
  std::string reason;
  std::string queue;             // where it failed: a valid name; "" = not known
  std::string_view queue_by;     // the source of `queue`, for people: "the header x-death"; a constant
  bool queue_by_config = false;  // the config names it: no header overrides it, and it is allowed as a target
  std::string_view record = "record of the failure";  // where the broker keeps such facts, for people
  // The exchange and routing key that took it to that queue. none = not known; an exchange may be "", the
  // default one.
  std::optional<std::string> exchange, routing_key;
  // When, in seconds since 1970, before the year 10000. A redelivery of the same failure has the same value,
  // so it tells whether two deliveries are one failure.
  std::optional<std::int64_t> failed_at_s;
  std::int64_t count = 0;  // how often it has failed there for that reason; 0 = not known
  // The queue was full: it evicted the message, or refused it. No consumer has failed it.
  bool unseen = false;
  // What a framework wrote into the message of an error queue (dialect.h). "" = nothing.
  std::string error = {}, error_type = {}, executor = {};
};

// The delay that the publisher of a delayed message requested from the broker, not from Rung.
struct DelayFacts {
  Ms delay{0};              // from the intake; 0 = none
  std::string refusal;      // not empty: why the request cannot be met, for people
  std::string_view header;  // the header with the request, removed from the message; "" = none; a constant
};

struct BrokerFacts {
  Table headers;  // written by the broker. They are not in Message::headers; the row keeps them
  FailureFacts failure;
  DelayFacts delay;
};

// Header names with a meaning to the broker. A submitted task may not use them. The views are constants of
// the plugin.
struct ReservedHeaders {
  std::span<const std::string_view> names, prefixes;
  std::string_view reply_to = {};  // a value of the property reply-to that the broker does not accept from us

  bool contains(std::string_view name) const {
    return std::ranges::find(names, name) != names.end() ||
           std::ranges::any_of(prefixes, [&](std::string_view p) { return name.starts_with(p); });
  }
};

}  // namespace rung
