// A consumer's result of a retry -> the row -> acked.
// Thread: the loop's.
#pragma once

#include <cstdint>
#include <vector>

#include "src/bridge/base/observers.h"
#include "src/bridge/changes/transitions.h"
#include "src/bridge/intake/acks.h"
#include "src/bridge/leases/delivery_proof.h"

namespace rung::bridge {

class Results {
 public:
  struct Deps {
    Transitions& transitions;
    Acks& acks;
    DeliveryProof& proof;
    TaskObserver& observer;
  };
  explicit Results(Deps deps) : deps_(deps) {}

  void said(const std::vector<Delivery>& deliveries);

  // Since the start, as received: repeats and those that change nothing count too.
  struct Counts {
    std::int64_t succeeded = 0, failed = 0, malformed = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  const Deps deps_;
  Counts counts_;
};

}  // namespace rung::bridge
