// Hands what the broker delivers to intake and results. Deliveries wait here as long as they cannot be
// judged: without the key of the delivery tokens no result can be, and without a look at the attached queues
// no target of a dead letter where broker.targets has a list. Thread: the loop's.
#pragma once

#include <cstdint>
#include <vector>

#include "src/bridge/attachments.h"
#include "src/bridge/delivery_proof.h"
#include "src/bridge/intake.h"
#include "src/bridge/left_unacked.h"
#include "src/bridge/results.h"
#include "src/bridge/transitions.h"

namespace rung::bridge {

class DeliveryRouter {
 public:
  struct Deps {
    Intake& intake;
    Results& results;
    Transitions& transitions;
    LeftUnacked& left;
    const DeliveryProof& proof;
    const Attachments& attachments;
    const RuleBookPtr& rules;  // replaced by a reload
  };
  explicit DeliveryRouter(Deps deps) : deps_(deps) {}

  // All of one connection.
  void route(std::vector<Delivery> batch);
  // What they waited for may be there.
  void route_waiting();
  // Drops all that is in hand: the broker brings it again.
  void drop_all() { drop_before(connection_ + 1); }
  // Hands nothing on any more: unacked, the broker gives it to another, or to our next life.
  void drain() { draining_ = true; }

 private:
  bool can_judge() const;
  void drop_before(std::uint32_t connection);

  const Deps deps_;
  std::uint32_t connection_ = 0;  // of the last delivery
  std::vector<Delivery> waiting_;
  bool draining_ = false;
};

}  // namespace rung::bridge
