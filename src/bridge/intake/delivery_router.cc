#include "src/bridge/intake/delivery_router.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/core/base/failpoint.h"
#include "src/core/base/result.h"
#include "src/core/machine/headers.h"
#include "src/io/log.h"

namespace rung::bridge {

void DeliveryRouter::route(std::vector<Delivery> batch) {
  // A new session: deliveries of older ones of this intake that still wait for the database are redelivered.
  // Keeping them would pile them up while the broker comes and goes and the database is away.
  RUNG_REQUIRE(!batch.empty());
  const IntakeSession session = batch.front().tag.session;
  RUNG_REQUIRE(std::ranges::all_of(batch, [&](const Delivery& d) { return d.tag.session == session; }));
  const auto known = std::ranges::find(sessions_, session.intake, &IntakeSession::intake);
  if (known == sessions_.end()) {
    sessions_.push_back(session);
  } else if (std::exchange(*known, session) != session) {
    drop_before(session);
  }
  for (const Delivery& delivery : batch) ++received_[static_cast<std::size_t>(delivery.inlet)];
  deps_.acks.received(session, batch.size());
  if (!can_judge()) {
    std::ranges::move(batch, std::back_inserter(waiting_));
    return;
  }
  pass_on(std::move(batch));
}

void DeliveryRouter::pass_on(std::vector<Delivery> batch) {
  std::vector<Delivery> failed, delayed, results;
  failpoint("delivery.received");
  if (draining_) return;
  for (Delivery& delivery : batch) {
    (delivery.inlet == Inlet::results ? results
     : delivery.inlet == Inlet::delay ? delayed
                                      : failed)
        .push_back(std::move(delivery));
  }
  if (!results.empty()) take_results(results);
  if (!failed.empty()) deps_.intake.failed(std::move(failed));
  if (!delayed.empty()) deps_.intake.delayed(std::move(delayed));
}

void DeliveryRouter::take_results(const std::vector<Delivery>& deliveries) {
  for (const Delivery& delivery : deliveries) {
    ResultWord word = read_result(delivery.message);
    if (!word.complaint.empty()) {
      // Dropping it loses nothing: the task is in its row, and the silence check handles it there.
      log::warn("result ignored: malformed", {{"reason", word.complaint}});
      ++results_.malformed;
      deps_.acks.add(delivery.tag);
      continue;
    }
    ++(word.succeeded ? results_.succeeded : results_.failed);
    const TaskId id = *word.id;
    const DeliveryProof::Claim claim{id, word.attempt, word.token};
    if (!deps_.proof.takes_result(claim)) {
      deps_.acks.add(delivery.tag);
      continue;
    }
    const bool proven = deps_.proof.proven(claim);
    if (proven) word.attempt = attempt_of_token(word.token);  // even without retry-attempt
    const std::uint32_t publish = proven ? publish_of_token(word.token) : 0;
    Event event{id, event::Succeeded{word.attempt, word.executor, proven, false, publish}};
    if (!word.succeeded) {
      if (word.error.empty()) word.error = "reported failed (no retry-error was given)";
      event.what = event::Failed{.attempt = word.attempt,
                                 .error = std::move(word.error),
                                 .error_type = std::move(word.error_type),
                                 .directives = std::move(word.directives),
                                 .executor = std::move(word.executor),
                                 .proven = proven,
                                 .publish = publish};
    }
    const auto decided = [this, id, tag = delivery.tag](const Result<Decision>& decision) {
      if (!decision) return;  // stopping: unacked, the broker keeps it
      if (decision->verdict == Decision::Verdict::refused) {
        log::warn("result ignored: no such attempt", {{"id", id.value}, {"reason", decision->reason}});
      }
      if (decision->verdict == Decision::Verdict::stale)
        log::debug("result ignored: it changes nothing", {{"id", id.value}, {"reason", decision->reason}});
      deps_.acks.add(tag);
      deps_.observer.decided(*decision);
    };
    deps_.transitions.add(std::move(event), decided, delivery.tag.session, Transitions::OnError::keep);
  }
  deps_.acks.flush();
  deps_.transitions.flush();
}

void DeliveryRouter::route_waiting() {
  if (!can_judge()) return;
  std::vector<Delivery> waiting = std::exchange(waiting_, {});
  if (!waiting.empty()) pass_on(std::move(waiting));
}

bool DeliveryRouter::can_judge() const {
  return deps_.proof.ready() && (deps_.attachments.looked() || !deps_.rules->targets().allow);
}

void DeliveryRouter::drop_all() {
  for (const IntakeSession& session : sessions_) drop_before(session.next());
}

void DeliveryRouter::drop_before(const IntakeSession& session) {
  deps_.acks.begin_session(session);
  deps_.intake.forget_before(session);
  deps_.transitions.forget_before(session);
  deps_.left.forget_before(session);
  std::erase_if(waiting_, [&](const Delivery& delivery) { return delivery.tag.session.before(session); });
}

}  // namespace rung::bridge
