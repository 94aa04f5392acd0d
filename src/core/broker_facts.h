// What a broker's plugin says of a message beside what its publisher wrote: why it failed, how long it is to
// wait, and which headers are the broker's own. The names of those headers stay in the plugin, but for texts
// that people read. Thread: values; pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/core/message.h"
#include "src/core/time.h"

namespace rung {

// Of a message that failed, what the broker recorded of its last failure.
struct FailureFacts {
  // Why: rejected, expired, maxlen or delivery_limit, as retry-reason has them, or the broker's own word.
  // "" = not known.
  std::string reason;
  std::string queue;          // where it failed: a valid name; "" = not known
  std::string_view queue_by;  // what tells the queue, for people: "the header x-death"; a constant
  std::string_view record = "record of the failure";  // where the broker keeps such facts, for people
  // By which it had come to that queue. none = not known; an exchange may be "", the default one.
  std::optional<std::string> exchange, routing_key;
  // When, in seconds since 1970, before the year 10000. The same again when the same failure is delivered
  // again: it tells whether two deliveries are one failure.
  std::optional<std::int64_t> failed_at_s;
  std::int64_t count = 0;  // how often it has failed there for that reason; 0 = not known
};

// Of a message that waits, how long its publisher asked the broker, not Rung, to hold it back.
struct DelayFacts {
  Ms delay{0};              // from the intake on; 0 = at once
  std::string refusal;      // not empty: it cannot be done as it was asked, and why, for people
  std::string_view header;  // the header that asks: it comes off what goes on; "" = none; a constant
};

struct BrokerFacts {
  Table headers;  // that the broker wrote. They are not in Message::headers; the row keeps them
  FailureFacts failure;
  DelayFacts delay;
};

// Names of headers that mean something to the broker: whoever submits a task may not use them. The views are
// constants of the plugin.
struct ReservedHeaders {
  std::span<const std::string_view> names, prefixes;

  bool contains(std::string_view name) const {
    return std::ranges::find(names, name) != names.end() ||
           std::ranges::any_of(prefixes, [&](std::string_view p) { return name.starts_with(p); });
  }
};

}  // namespace rung
