#include "plugin/rabbitmq/consume/own_queues.h"

#include <algorithm>
#include <utility>

namespace rung::rabbit {
namespace {

// The consumer tags that stand for the inlets.
constexpr std::pair<Inlet, std::string_view> kTags[] = {
    {Inlet::failed, "failed"}, {Inlet::results, "results"}, {Inlet::delay, "delay"}};

std::string_view consumer_tag(const Declared& inlet) {
  const auto* const it = std::ranges::find(kTags, *inlet.inlet, &std::pair<Inlet, std::string_view>::first);
  return it->second;
}

Error with_name(Error error, const std::string& what) {
  error.message = what + ": " + error.message;
  return error;
}

}  // namespace

std::vector<Declared> OwnQueues::inlets() const {
  auto all = topology(options_);
  std::erase_if(all, [](const Declared& one) { return !one.consumed; });
  return all;
}

// The report also comes with nothing in it: the topology is in order.
Result<void> OwnQueues::declare(const Calls& calls, Pass pass) {
  auto report = declare_topology(options_, types_, calls, pass);
  if (!report) {
    if (report.error().kind == Error::Kind::refused) sink_.sink().on_topology({{}, report.error().message});
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
  sink_.sink().on_topology({std::move(repaired), std::move(report->problem)});
  return {};
}

Result<void> OwnQueues::consume(const Calls& calls) {
  amqp_basic_qos_t qos{};
  qos.prefetch_count =
      static_cast<std::uint16_t>(std::clamp(options_.prefetch, 1, 65535));  // for each consumer
  if (auto done = calls.send(AMQP_BASIC_QOS_METHOD, &qos); !done) return done;
  for (const Declared& one : inlets()) {
    amqp_basic_consume_t consume{};
    consume.queue = bytes(one.name);
    consume.consumer_tag = bytes(consumer_tag(one));
    auto done = calls.send(AMQP_BASIC_CONSUME_METHOD, &consume);
    if (!done) return tl::unexpected(with_name(done.error(), "consuming " + one.name));
  }
  return {};
}

Result<void> OwnQueues::cancel(const Calls& calls) {
  for (const Declared& one : inlets()) {
    auto done = calls.cancel(consumer_tag(one));
    if (!done) return tl::unexpected(with_name(done.error(), "cancelling " + one.name));
  }
  return {};
}

void OwnQueues::send_cancel(Connection& connection) {
  for (const Declared& one : inlets()) rabbit::send_cancel(connection, consumer_tag(one));
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
  for (Declared& one : inlets()) {
    if (one.inlet == origin(consumer_tag).inlet) cancelled_.queues.push_back(std::move(one.name));
  }
}

ConsumedQueues::Origin OwnQueues::origin(std::string_view consumer_tag) const {
  const auto* const it = std::ranges::find(kTags, consumer_tag, &std::pair<Inlet, std::string_view>::second);
  return {it == std::end(kTags) ? Inlet::failed : it->first};
}

}  // namespace rung::rabbit
