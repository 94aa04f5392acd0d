#include "plugin/rabbitmq/consume/own_queues.h"

#include <algorithm>
#include <utility>

namespace rung::rabbit {

OwnQueues::OwnQueues(const BrokerOptions& options, OwnQueueTypes& types, BrokerSink& sink)
    : options_(options), types_(types), sink_(sink), inlets_(topology(options)) {
  std::erase_if(inlets_, [](const Declared& one) { return !one.inlet; });
}

// The report also comes with nothing in it: the topology is in order.
Result<void> OwnQueues::declare(const Calls& calls, Pass pass) {
  auto report = declare_topology(options_, types_, calls, pass);
  if (!report) {
    if (report.error().kind == Error::Kind::refused) sink_.on_topology({{}, report.error().message});
    return tl::unexpected(report.error());
  }
  auto repaired = std::exchange(cancelled_.queues, {});  // another may be cancelled during the calls below
  for (std::string& queue : repaired) {
    const auto found = calls.look_at_queue(queue);
    if (!found) return tl::unexpected(found.error());
    // basic.cancel does not say why. A queue that was deleted is empty now; after a consumer timeout our
    // messages are back in it, or at another instance.
    const bool was_there = found->message_count > 0 || found->consumer_count > 0;
    queue = (was_there ? "consumer of queue " : "queue ") + queue;
  }
  sink_.on_topology({std::move(repaired), std::move(report->problem)});
  return {};
}

Result<void> OwnQueues::consume(const Calls& calls) {
  auto done = calls.prefetch(static_cast<std::uint16_t>(std::clamp(options_.prefetch, 1, 65535)));
  for (auto one = inlets_.begin(); done && one != inlets_.end(); ++one) {
    done = calls.consume(one->name);
    if (!done) done.error().message = "consuming " + one->name + ": " + done.error().message;
  }
  return done;
}

Result<void> OwnQueues::cancel(const Calls& calls) {
  for (const Declared& one : inlets_) {
    if (auto done = calls.cancel(one.name); !done) return done;
  }
  return {};
}

void OwnQueues::send_cancel(Connection& connection) {
  for (const Declared& one : inlets_) rabbit::send_cancel(connection, one.name);
}

Result<ConsumedQueues::Changed> OwnQueues::change(const Calls& calls, bool consuming) {
  cancelled_.due = false;
  send_cancel(calls.connection);  // the remaining ones, so that all start in the same way
  auto done = declare(calls, Pass::consuming);
  if (done && consuming) done = consume(calls);
  if (!done) return tl::unexpected(done.error());
  return Changed::done;
}

void OwnQueues::cancelled(std::string_view consumer_tag) {
  cancelled_.due = true;
  cancelled_.queues.emplace_back(consumer_tag);
}

ConsumedQueues::Origin OwnQueues::origin(std::string_view consumer_tag) const {
  const auto it = std::ranges::find(inlets_, consumer_tag, &Declared::name);
  return {it == inlets_.end() ? Inlet::failed : *it->inlet};
}

}  // namespace rung::rabbit
