#include "src/bridge/delivery_router.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/core/failpoint.h"

namespace rung::bridge {

void DeliveryRouter::route(std::vector<Delivery> batch) {
  // A new connection: deliveries of older ones that still wait for the database are redelivered. Keeping them
  // would pile them up while the broker comes and goes and the database is away.
  if (const std::uint32_t connection = batch.front().tag.session(); connection != connection_) {
    connection_ = connection;
    drop_before(connection);
  }
  deps_.acks.received(connection_, batch.size());
  for (const Delivery& delivery : batch) ++received_[static_cast<std::size_t>(delivery.inlet)];
  pass_on(std::move(batch));
}

void DeliveryRouter::pass_on(std::vector<Delivery> batch) {
  if (!can_judge()) {
    std::ranges::move(batch, std::back_inserter(waiting_));
    return;
  }
  std::vector<Delivery> failed, delayed, results;
  failpoint("delivery.received");
  if (draining_) return;
  for (Delivery& delivery : batch) {
    if (delivery.returned_copy) {
      deps_.copies.add(std::move(delivery));
      continue;
    }
    if (delivery.inlet == Inlet::error) deps_.copies.failure_came(delivery.source);
    (delivery.inlet == Inlet::results ? results
     : delivery.inlet == Inlet::delay ? delayed
                                      : failed)
        .push_back(std::move(delivery));
  }
  if (!results.empty()) deps_.results.said(results);
  if (!failed.empty()) deps_.intake.failed(std::move(failed));
  if (!delayed.empty()) deps_.intake.delayed(std::move(delayed));
}

void DeliveryRouter::route_waiting() {
  if (!can_judge()) return;
  std::vector<Delivery> waiting = std::exchange(waiting_, {});
  if (!waiting.empty()) pass_on(std::move(waiting));
}

bool DeliveryRouter::can_judge() const {
  return deps_.proof.ready() && (deps_.attachments.looked() || !deps_.rules->targets().allow);
}

void DeliveryRouter::drop_before(std::uint32_t connection) {
  deps_.acks.begin_session(connection);
  deps_.intake.forget_before(connection);
  deps_.transitions.forget_before(connection);
  deps_.left.forget_before(connection);
  deps_.copies.forget_before(connection);
  waiting_.clear();
}

}  // namespace rung::bridge
