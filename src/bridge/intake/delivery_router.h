// Passes the broker's deliveries to intake; a consumer's result of a retry goes to the row, and is acked
// then. Deliveries wait here until they can be checked: results need the key of the delivery tokens; if
// broker.targets has a list, dead letters need a check of the attached queues. Thread: the loop's.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/bridge/base/observers.h"
#include "src/bridge/changes/transitions.h"
#include "src/bridge/intake/acks.h"
#include "src/bridge/intake/intake.h"
#include "src/bridge/leases/delivery_proof.h"
#include "src/bridge/watch/attachments.h"

namespace rung::bridge {

class DeliveryRouter {
 public:
  struct Deps {
    Acks& acks;
    Intake& intake;
    Transitions& transitions;
    LeftUnacked& left;
    DeliveryProof& proof;
    TaskObserver& observer;
    const Attachments& attachments;
    const RuleBookPtr& rules;  // replaced by a reload
  };
  explicit DeliveryRouter(Deps deps) : deps_(deps) {}

  // REQUIRES: all are of one session.
  void route(std::vector<Delivery> batch);
  // Tries the waiting deliveries again: what they wait for may have arrived.
  void route_waiting();
  // Drops all deliveries in hand: the broker redelivers them.
  void drop_all();
  // Passes on nothing more: the broker redelivers the unacked to another instance, or to us after a restart.
  void drain() { draining_ = true; }

  // Deliveries since the start, by Inlet; redeliveries included.
  using Received = std::array<std::int64_t, 4>;
  const Received& received() const { return received_; }
  // Results since the start, as received: repeats and those that change nothing count too.
  struct Results {
    std::int64_t succeeded = 0, failed = 0, malformed = 0;
  };
  const Results& results() const { return results_; }

 private:
  bool can_judge() const;
  void pass_on(std::vector<Delivery> batch);
  void take_results(const std::vector<Delivery>& deliveries);
  void drop_before(const IntakeSession& session);

  const Deps deps_;
  std::vector<IntakeSession> sessions_;  // of the last delivery of each intake
  std::vector<Delivery> waiting_;
  bool draining_ = false;
  Received received_{};
  Results results_;
};

}  // namespace rung::bridge
