#include "plugin/rabbitmq/topology/own_queues.h"

#include <algorithm>
#include <utility>

#include "plugin/rabbitmq/topology/topology.h"

namespace rung::rabbit {

Result<void> OwnQueues::declare(const Calls& calls) {
  if (auto done = declare_return_exchange(options_, calls); !done) return done;
  return declare_all(calls, true);
}

Result<void> OwnQueues::declare_all(const Calls& calls, bool may_adopt) {
  adopted_.clear();
  if (auto done = declare_topology(options_, types_, calls, may_adopt ? &adopted_ : nullptr); !done) {
    if (done.error().kind == Error::Kind::refused) sink_.sink().on_topology({{}, done.error().message});
    return done;
  }
  return report_repaired(calls);
}

// Also called with nothing to report: the topology is in order.
Result<void> OwnQueues::report_repaired(const Calls& calls) {
  auto repaired = std::exchange(cancelled_.queues, {});  // another may be cancelled during the calls below
  for (std::string& queue : repaired) {
    const auto found = calls.look_at_queue(queue);
    if (!found) return tl::unexpected(found.error());
    // basic.cancel does not say why. A queue that was deleted is empty now; after a consumer timeout our
    // messages are back in it, or at another instance.
    const bool was_there = found->message_count > 0 || found->consumer_count > 0;
    queue = (was_there ? "consumer of queue " : "queue ") + queue;
  }
  sink_.sink().on_topology({std::move(repaired), adopted_});
  return {};
}

Result<void> OwnQueues::consume(const Calls& calls) { return consume_inlets(options_, calls); }

Result<void> OwnQueues::cancel(const Calls& calls) { return cancel_inlets(options_, calls); }

void OwnQueues::send_cancel(Connection& connection) {
  for (const Declared& one : topology(options_)) {
    if (one.consumed) rabbit::send_cancel(connection, consumer_tag(*one.inlet));
  }
}

Result<ConsumedQueues::Changed> OwnQueues::change(const Calls& calls, bool consuming) {
  cancelled_.due = false;
  send_cancel(calls.connection);  // the remaining ones, so that all start in the same way
  auto done = declare_all(calls, false);
  if (done && consuming) done = consume(calls);
  if (!done) return tl::unexpected(done.error());
  return Changed::done;
}

void OwnQueues::cancelled(std::string_view consumer_tag) {
  cancelled_.due = true;
  const auto inlets = topology(options_);
  const auto it = std::ranges::find(inlets, inlet_from(consumer_tag), &Declared::inlet);
  if (it != inlets.end()) cancelled_.queues.push_back(it->name);
}

ConsumedQueues::Origin OwnQueues::origin(std::string_view consumer_tag) const {
  return {inlet_from(consumer_tag).value_or(Inlet::failed)};
}

}  // namespace rung::rabbit
