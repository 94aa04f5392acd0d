#include "plugin/rabbitmq/topology/topology.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "plugin/rabbitmq/topology/return_route.h"
#include "src/core/base/url.h"

namespace rung::rabbit {
namespace {

// Quorum queues drop a message after this many deliveries (20 by default in RabbitMQ 4): a crash loop of ours
// must not reach it. 4.x also accepts -1 for "never", but 3.10 refuses negative values; both accept this one.
constexpr std::int32_t kDeliveryLimit = std::numeric_limits<std::int32_t>::max();

constexpr const char* kFanout = "fanout";
constexpr const char* kTopic = "topic";

constexpr std::pair<Inlet, std::string_view> kTags[] = {
    {Inlet::failed, "failed"}, {Inlet::results, "results"}, {Inlet::delay, "delay"}};

template <typename Fields>
Result<void> call(Connection& connection, amqp_method_number_t id, const Fields& fields, Waker& waker,
                  BootMs deadline, const Connection::Others& others) {
  auto answer = connection.call(id, &fields, id + 1, waker, deadline, others);  // X-ok is always X + 1
  if (!answer) return tl::unexpected(answer.error());
  return {};
}

constexpr std::string_view kAuto = "auto", kClassic = "classic", kQuorum = "quorum";

// Sends each "X-declare" and "bind".
struct Declaring {
  Connection& connection;
  Waker& waker;
  BootMs deadline;
  const Connection::Others& others;

  Result<void> exchange(const std::string& name, bool passive = false, const char* type = kFanout) const {
    amqp_exchange_declare_t exchange{};
    exchange.exchange = bytes(name);
    exchange.type = amqp_cstring_bytes(type);
    exchange.durable = 1;
    exchange.passive = passive ? 1 : 0;
    return call(connection, AMQP_EXCHANGE_DECLARE_METHOD, exchange, waker, deadline, others);
  }
  Result<void> return_exchange(const std::string& name, ReturnExchange as, bool passive = false) const {
    return rabbit::declare_exchange(name, as, passive, connection, waker, deadline, others);
  }
  Result<void> queue(const std::string& name, amqp_table_t arguments, bool passive = false) const {
    amqp_queue_declare_t queue{};
    queue.queue = bytes(name);
    queue.durable = 1;
    queue.passive = passive ? 1 : 0;
    queue.arguments = arguments;
    return call(connection, AMQP_QUEUE_DECLARE_METHOD, queue, waker, deadline, others);
  }
  // The last declare was refused, because it exists with another type or other arguments.
  bool found_different() const {
    return connection.channel_closed() && connection.closing().code == AMQP_PRECONDITION_FAILED;
  }
  Result<void> bind(const std::string& queue, const std::string& exchange) const {
    amqp_queue_bind_t binding{};
    binding.queue = bytes(queue);
    binding.exchange = bytes(exchange);
    return call(connection, AMQP_QUEUE_BIND_METHOD, binding, waker, deadline, others);
  }
};

// Explains what to do if an exchange of `delays:` already exists with another type: usually the
// delayed-message plugin's.
Error told(const Error& error, const std::string& name) {
  std::string what = "declaring the exchange " + name + " (delays:): " + error.message;
  if (error.message.find("PRECONDITION_FAILED") != std::string::npos) {
    what +=
        "; it must be a durable fanout exchange without arguments: once nothing waits in the old one, delete "
        "it, and Rung declares it again (docs/moving-from-the-delayed-exchange.md). Until then intake is "
        "stopped";
  }
  Error out = error;
  out.message = std::move(what);
  return out;
}

// For a queue or exchange that already exists with other arguments.
Error with_name(Error error, const std::string& what) {
  error.message = what + ": " + error.message;
  if (error.message.find("PRECONDITION_FAILED") != std::string::npos) {
    error.message +=
        "; it exists with other arguments: set broker.queue_type to the type that it has, or choose another "
        "broker.prefix, or delete it once it is empty, and Rung declares it again";
  }
  return error;
}

// Says that what exists with other arguments ("queue rung.failed") is used as it is.
void add_adopted(std::string& adopted, const std::string& what, const Error& why) {
  if (!adopted.empty()) adopted += "; ";
  adopted += with_name({why.kind, why.message + ". It is used as it is"}, what).message;
}

// Declares one of Rung's own queues. `may_reopen`: if it exists with other arguments, and its type may
// differ, tries the other type, on a channel that is opened again.
Result<void> declare_own_queue(const BrokerOptions& options, OwnQueueTypes& types, const Declaring& declare,
                               const std::string& queue, bool may_reopen) {
  const std::string& wanted = options.rabbitmq.queue_type;
  const std::string type = types.of(queue, wanted, declare.connection.major_version());
  auto done = declare.queue(queue, QueueArguments(type).table());
  if (done || wanted != kAuto || !may_reopen || !declare.found_different()) return done;
  if (auto opened = declare.connection.open_channel(declare.waker, declare.deadline, declare.others); !opened)
    return opened;
  const std::string other(type == kQuorum ? kClassic : kQuorum);
  if (!declare.queue(queue, QueueArguments(other).table())) return done;  // another argument differs
  types.found(queue, other);
  return {};
}

// Uses a queue that exists with other arguments as it is: the messages in it must be taken in. Reopens the
// channel.
Result<void> adopt(const Declaring& declare, const std::string& queue, const Error& why,
                   std::string& adopted) {
  const auto opened = declare.connection.open_channel(declare.waker, declare.deadline, declare.others);
  if (!opened) return opened;
  const auto exists = declare.queue(queue, amqp_empty_table, true);
  if (!exists) return exists;
  add_adopted(adopted, "queue " + queue, why);
  return {};
}

// The exchange for events. If it exists with another type, it is used as it is: intake must not stop for it.
Result<void> declare_events(const Declaring& declare, const std::string& name, std::string* adopted) {
  auto done = declare.exchange(name, false, kTopic);
  if (done || !declare.found_different() || adopted == nullptr)
    return done ? done : tl::unexpected(with_name(done.error(), "declaring " + name));
  const auto opened = declare.connection.open_channel(declare.waker, declare.deadline, declare.others);
  if (!opened) return opened;
  add_adopted(*adopted, "exchange " + name, done.error());
  return {};
}

// One pass of repair_topology().
class Repair {
 public:
  Repair(const BrokerOptions& options, OwnQueueTypes& types, const Declaring& declare)
      : options_(options), types_(types), declare_(declare) {}

  Result<TopologyReport> run() {
    for (const Declared& one : topology(options_)) {
      exchange(one.name);
      ensure("queue", one.name, [&](bool passive) {
        return passive ? declare_.queue(one.name, amqp_empty_table, true)
                       : declare_own_queue(options_, types_, declare_, one.name, true);
      });
      bind(one.name, one.name);
    }
    for (const std::string& from : options_.rabbitmq.delay_exchanges) {
      exchange(from);
      bind(options_.prefix + ".delay", from);
    }
    if (options_.events) exchange(events_exchange(options_.prefix), kTopic);
    return_route(return_exchange(options_.prefix));
    if (broken_) return tl::unexpected(*broken_);
    return std::move(report_);
  }

 private:
  void exchange(const std::string& name, const char* type = kFanout) {
    ensure("exchange", name, [&](bool passive) { return declare_.exchange(name, passive, type); });
  }
  // Earlier versions declared it without an alternate exchange: that is fine, too.
  void return_route(const std::string& name) {
    const auto as = [&](ReturnExchange kind, bool passive) {
      return attempt([&] { return declare_.return_exchange(name, kind, passive); });
    };
    const bool missing = as(ReturnExchange::own, true) == AMQP_NOT_FOUND;
    int code = as(ReturnExchange::own, false);
    if (code == AMQP_PRECONDITION_FAILED) code = as(ReturnExchange::plain, false);
    if (missing && code == 0) report_.repaired.push_back("exchange " + name);
    report_.return_route_changed = !broken_ && (missing || code == AMQP_PRECONDITION_FAILED);
    if (code != AMQP_ACCESS_REFUSED || missing) note(code, "exchange", name);
  }

  // A declare that is not passive also compares type and arguments. Missing rights for it do not matter while
  // the exchange or queue exists.
  template <typename Declare>
  void ensure(const std::string& what, const std::string& name, Declare&& declare) {
    if (!exists_.insert(what + name).second) return;
    const int code = attempt([&] { return declare(true); });
    if (broken_ || (code != 0 && code != AMQP_NOT_FOUND)) return note(code, what, name);
    const bool missing = code == AMQP_NOT_FOUND;
    const int declared = attempt([&] { return declare(false); });
    if (declared == AMQP_ACCESS_REFUSED && !missing) return;
    if (declared != 0) return note(declared, what, name);
    if (missing) report_.repaired.push_back(what + " " + name);
  }

  void bind(const std::string& queue, const std::string& exchange) {
    const int code = attempt([&] { return declare_.bind(queue, exchange); });
    if (code != AMQP_NOT_FOUND) note(code, "binding of queue " + queue + " to exchange", exchange);
  }

  // 0 = done; else the code with which the broker closed the channel, which has been reopened.
  template <typename Call>
  int attempt(Call&& call) {
    if (broken_) return 0;
    const auto done = call();
    if (done) return 0;
    why_ = done.error().message;
    const int code = declare_.connection.closing().code;
    const auto opened = declare_.connection.open_channel(declare_.waker, declare_.deadline, declare_.others);
    if (!opened || code == 0) broken_ = done.error();
    return code;
  }

  void note(int code, const std::string& what, const std::string& name) {
    if (code == 0 || broken_) return;
    if (!report_.problem.empty()) report_.problem += "; ";
    report_.problem += what + " " + name + ": " + why_ + remedy(code, what, name);
  }

  std::string remedy(int code, const std::string& what, const std::string& name) const {
    const auto url = parse_url(options_.url);
    const std::string vhost = url ? url->vhost() : "/";
    if (code == AMQP_ACCESS_REFUSED) {
      return " (see `rabbitmqctl list_permissions -p " + vhost +
             "`: the user needs configure, write and read on " + options_.prefix + ".*)";
    }
    if (code != AMQP_PRECONDITION_FAILED) return "";
    const std::string command = what == "queue"
                                    ? "rabbitmqctl delete_queue -p " + vhost + " " + name
                                    : "rabbitmqadmin -V " + vhost + " delete exchange name=" + name;
    return " (it exists with other properties: once nothing uses it, `" + command +
           "`, and Rung declares it again)";
  }

  const BrokerOptions& options_;
  OwnQueueTypes& types_;
  const Declaring& declare_;
  std::set<std::string> exists_;  // checked in this pass
  std::string why_;               // the broker's text for the last refusal
  std::optional<Error> broken_;   // the connection has ended
  TopologyReport report_;
};

}  // namespace

QueueArguments::QueueArguments(const std::string& type) {
  entries_[0].key = amqp_cstring_bytes("x-queue-type");
  entries_[0].value.kind = AMQP_FIELD_KIND_UTF8;
  entries_[0].value.value.bytes = bytes(type);
  entries_[1].key = amqp_cstring_bytes("x-delivery-limit");
  entries_[1].value.kind = AMQP_FIELD_KIND_I32;
  entries_[1].value.value.i32 = kDeliveryLimit;
  count_ = type == kQuorum ? 2 : 1;
}

std::string OwnQueueTypes::of(const std::string& queue, const std::string& queue_type,
                              int major_version) const {
  if (queue_type != kAuto) return queue_type;
  const std::lock_guard lock(mutex_);
  const auto known = types_.find(queue);
  if (known != types_.end()) return known->second;
  return std::string(major_version >= 4 ? kQuorum : kClassic);
}

void OwnQueueTypes::found(const std::string& queue, std::string type) {
  const std::lock_guard lock(mutex_);
  types_[queue] = std::move(type);
}

Result<TopologyReport> repair_topology(const BrokerOptions& options, OwnQueueTypes& types,
                                       Connection& connection, Waker& waker, BootMs deadline) {
  const Connection::Others others = [](const Frame&) {};
  const Declaring declare{connection, waker, deadline, others};
  return Repair(options, types, declare).run();
}

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

Result<void> declare_topology(const BrokerOptions& options, OwnQueueTypes& types, Connection& connection,
                              Waker& waker, BootMs deadline, const Connection::Others& others,
                              std::string* adopted) {
  const Declaring declare{connection, waker, deadline, others};
  for (const Declared& one : topology(options)) {
    auto done = declare.exchange(one.name);
    if (done) done = declare_own_queue(options, types, declare, one.name, adopted != nullptr);
    if (!done && adopted != nullptr && declare.found_different())
      done = adopt(declare, one.name, done.error(), *adopted);
    if (done) done = declare.bind(one.name, one.name);
    if (!done) return tl::unexpected(with_name(done.error(), "declaring " + one.name));
  }
  for (const std::string& from : options.rabbitmq.delay_exchanges) {
    auto done = declare.exchange(from);
    if (done) done = declare.bind(options.prefix + ".delay", from);
    if (!done) return tl::unexpected(told(done.error(), from));
  }
  if (options.events) return declare_events(declare, events_exchange(options.prefix), adopted);
  return {};
}

Result<void> declare_return_exchange(const BrokerOptions& options, Connection& connection, Waker& waker,
                                     BootMs deadline, const Connection::Others& others) {
  const Declaring declare{connection, waker, deadline, others};
  const std::string name = return_exchange(options.prefix);
  for (const ReturnExchange as : {ReturnExchange::own, ReturnExchange::plain}) {
    const auto done = declare.return_exchange(name, as);
    if (done || !connection.channel_closed()) return done;
    const bool other = connection.closing().code == AMQP_PRECONDITION_FAILED;
    if (auto opened = connection.open_channel(waker, deadline, others); !opened || !other) return opened;
  }
  return {};
}

Result<void> cancel_inlets(const BrokerOptions& options, Connection& connection, Waker& waker,
                           BootMs deadline, const Connection::Others& others) {
  for (const Declared& one : topology(options)) {
    if (!one.consumed) continue;
    amqp_basic_cancel_t cancel{};
    cancel.consumer_tag = bytes(consumer_tag(*one.inlet));
    auto done = call(connection, AMQP_BASIC_CANCEL_METHOD, cancel, waker, deadline, others);
    if (!done) return tl::unexpected(with_name(done.error(), "cancelling " + one.name));
  }
  return {};
}

Result<void> consume_inlets(const BrokerOptions& options, Connection& connection, Waker& waker,
                            BootMs deadline, const Connection::Others& others) {
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
    if (!done) return tl::unexpected(with_name(done.error(), "consuming " + one.name));
  }
  return {};
}

}  // namespace rung::rabbit
