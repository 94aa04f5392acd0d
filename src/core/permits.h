// Who may publish to a queue with a rate, a rate for each value of a header, or a limit on deliveries in
// flight: instances ask the database for permits. These functions decide inside a transaction that has locked
// the queue's row. Thread: values and pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "src/core/gate_rules.h"
#include "src/core/time.h"

namespace rung {

// Refills at a rate, up to a burst: one token, and those of kBurst. A queue that was idle may send the burst
// at once: one, and 2 % of what the rate allows in 10 s. Without the one, a slow rate would lose what arrives
// between two requests.
struct TokenBucket {
  static constexpr Ms kBurst{200};

  double tokens = 0;
  EpochMs filled_at;  // 0 = new: full

  bool operator==(const TokenBucket&) const = default;
  static double burst(double per_second) {
    return 1.0 + per_second * static_cast<double>(kBurst.count()) / 1000.0;
  }
};
// A clock that was set back costs nothing but the time since the last refill.
void refill(TokenBucket& bucket, double per_second, EpochMs now);

// By value of RateBy::header; "" = no value, or the queue has no RateBy.
using PermitCounts = std::map<std::string, int, std::less<>>;

struct PermitBook {
  TokenBucket queue;                                       // for GateRules::rate
  std::map<std::string, TokenBucket, std::less<>> values;  // for RateBy, those that were asked for
  // Deliveries in flight, and permits that other instances have not used yet; for GateRules::in_flight.
  int in_flight = 0;
};

struct PermitRequest {
  PermitCounts wanted;
  // The value whose turn it is: the first to get one of the last permits. Who asks moves on, so that none
  // starves.
  std::string turn;
  // The queue's rate while it grows again after a breaker has closed; none = GateRules::rate.
  std::optional<double> ramp_rate = {};
};

// Grants as much as the gate allows, and takes it from the buckets. No value gets more than an equal share
// while others want more.
PermitCounts grant(PermitBook& book, const GateRules& rules, const PermitRequest& request, EpochMs now);
// Permits that were not used go back to the buckets. Call before grant().
void give_back(PermitBook& book, const GateRules& rules, const PermitCounts& returned);

}  // namespace rung
