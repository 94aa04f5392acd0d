// A consumer's word on a retry -> the row -> acked.
// Thread: the loop's.
#pragma once

#include <functional>
#include <vector>

#include "src/bridge/acks.h"
#include "src/bridge/delivery_proof.h"
#include "src/bridge/transitions.h"

namespace rung::bridge {

class Results {
 public:
  struct Parts {
    Transitions& transitions;
    Acks& acks;
    DeliveryProof& proof;
    std::function<void(const Decision&)> settled;
  };
  explicit Results(Parts parts) : parts_(std::move(parts)) {}

  void said(const std::vector<Delivery>& deliveries);

 private:
  const Parts parts_;
};

}  // namespace rung::bridge
