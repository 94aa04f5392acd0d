#include "plugin/rabbitmq/topology.h"

#include <algorithm>
#include <array>
#include <limits>

namespace rung::rabbit {
namespace {

// Quorum queues drop a message after so many deliveries (20 by default in RabbitMQ 4): a crash loop of ours
// must not reach it. 4.x would also take -1 for "never", 3.10 refuses what is negative; both take this.
constexpr std::int32_t kDeliveryLimit = std::numeric_limits<std::int32_t>::max();

constexpr std::pair<Inlet, std::string_view> kTags[] = {
    {Inlet::failed, "failed"}, {Inlet::results, "results"}, {Inlet::delay, "delay"}};

template <typename Fields>
Result<void> call(Connection& connection, amqp_method_number_t id, const Fields& fields, Waker& waker,
                  Clock::time_point deadline, const Connection::Others& others) {
  auto answer = connection.call(id, &fields, id + 1, waker, deadline, others);  // X-ok is always X + 1
  if (!answer) return tl::unexpected(answer.error());
  return {};
}

amqp_table_t arguments_for(const BrokerOptions& options, std::array<amqp_table_entry_t, 2>& entries) {
  if (options.queue_type != "quorum") return amqp_empty_table;
  entries[0].key = amqp_cstring_bytes("x-queue-type");
  entries[0].value.kind = AMQP_FIELD_KIND_UTF8;
  entries[0].value.value.bytes = amqp_cstring_bytes("quorum");
  entries[1].key = amqp_cstring_bytes("x-delivery-limit");
  entries[1].value.kind = AMQP_FIELD_KIND_I32;
  entries[1].value.value.i32 = kDeliveryLimit;
  return {static_cast<int>(entries.size()), entries.data()};
}

// Each "X-declare" and "bind" on its way.
struct Declaring {
  Connection& connection;
  Waker& waker;
  Clock::time_point deadline;
  const Connection::Others& others;

  Result<void> exchange(const std::string& name) const {
    amqp_exchange_declare_t exchange{};
    exchange.exchange = bytes(name);
    exchange.type = amqp_cstring_bytes("fanout");
    exchange.durable = 1;
    return call(connection, AMQP_EXCHANGE_DECLARE_METHOD, exchange, waker, deadline, others);
  }
  Result<void> queue(const std::string& name, amqp_table_t arguments) const {
    amqp_queue_declare_t queue{};
    queue.queue = bytes(name);
    queue.durable = 1;
    queue.arguments = arguments;
    return call(connection, AMQP_QUEUE_DECLARE_METHOD, queue, waker, deadline, others);
  }
  Result<void> bind(const std::string& queue, const std::string& exchange) const {
    amqp_queue_bind_t binding{};
    binding.queue = bytes(queue);
    binding.exchange = bytes(exchange);
    return call(connection, AMQP_QUEUE_BIND_METHOD, binding, waker, deadline, others);
  }
};

// What to do where an exchange of `delays:` stands already, and is another: the delayed-message plugin's, as
// a rule.
Error told(const Error& error, const std::string& name) {
  std::string what = "declaring the exchange " + name + " (delays:): " + error.message;
  if (error.message.find("PRECONDITION_FAILED") != std::string::npos) {
    what +=
        "; it must be a durable fanout exchange without arguments: once nothing waits in the old one, delete "
        "it, and "
        "Rung declares it anew (docs/moving-from-the-delayed-exchange.md). Until then nothing is taken in";
  }
  return Error{error.kind, std::move(what)};
}

}  // namespace

std::vector<Declared> topology(const BrokerOptions& options) {
  return {{options.prefix + ".failed", Inlet::failed, true},
          {options.prefix + ".delay", Inlet::delay, options.consume_delay},
          {options.prefix + ".results", Inlet::results, true},
          {options.prefix + ".parked", std::nullopt, false}};
}

std::string_view consumer_tag(Inlet inlet) {
  return std::find_if(std::begin(kTags), std::end(kTags), [&](const auto& t) { return t.first == inlet; })
      ->second;
}

std::optional<Inlet> inlet_from(std::string_view tag) {
  for (const auto& [inlet, word] : kTags) {
    if (word == tag) return inlet;
  }
  return std::nullopt;
}

Result<void> declare_topology(const BrokerOptions& options, Connection& connection, Waker& waker,
                              Clock::time_point deadline, const Connection::Others& others) {
  std::array<amqp_table_entry_t, 2> entries{};
  const amqp_table_t arguments = arguments_for(options, entries);
  const Declaring declare{connection, waker, deadline, others};
  for (const Declared& one : topology(options)) {
    auto done = declare.exchange(one.name);
    if (done) done = declare.queue(one.name, arguments);
    if (done) done = declare.bind(one.name, one.name);
    if (!done)
      return tl::unexpected(Error{done.error().kind, "declaring " + one.name + ": " + done.error().message});
  }
  for (const std::string& from : options.delay_exchanges) {
    auto done = declare.exchange(from);
    if (done) done = declare.bind(options.prefix + ".delay", from);
    if (!done) return tl::unexpected(told(done.error(), from));
  }
  return {};
}

Result<void> consume_inlets(const BrokerOptions& options, Connection& connection, Waker& waker,
                            Clock::time_point deadline, const Connection::Others& others) {
  amqp_basic_qos_t qos{};
  qos.prefetch_count =
      static_cast<std::uint16_t>(std::clamp(options.prefetch, 1, 65535));  // for each consumer
  if (auto done = call(connection, AMQP_BASIC_QOS_METHOD, qos, waker, deadline, others); !done) return done;
  for (const Declared& one : topology(options)) {
    if (!one.consumed) continue;
    amqp_basic_consume_t consume{};
    consume.queue = bytes(one.name);
    consume.consumer_tag = bytes(consumer_tag(*one.inlet));
    auto done = call(connection, AMQP_BASIC_CONSUME_METHOD, consume, waker, deadline, others);
    if (!done)
      return tl::unexpected(Error{done.error().kind, "consuming " + one.name + ": " + done.error().message});
  }
  return {};
}

}  // namespace rung::rabbit
