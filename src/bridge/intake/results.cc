#include "src/bridge/intake/results.h"

#include <utility>

#include "src/core/machine/headers.h"
#include "src/io/log.h"

namespace rung::bridge {

void Results::said(const std::vector<Delivery>& deliveries) {
  for (const Delivery& delivery : deliveries) {
    ResultWord word = read_result(delivery.message);
    if (!word.complaint.empty()) {
      // Dropping it loses nothing: the task is in its row, and the silence check handles it there.
      log::warn("result ignored: malformed", {{"reason", word.complaint}});
      ++counts_.malformed;
      deps_.acks.add(delivery.tag);
      continue;
    }
    ++(word.succeeded ? counts_.succeeded : counts_.failed);
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

}  // namespace rung::bridge
