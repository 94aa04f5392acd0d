#include "plugin/rabbitmq/topology/topology.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "plugin/rabbitmq/topology/management.h"
#include "plugin/rabbitmq/topology/return_route.h"
#include "src/core/base/url.h"

namespace rung::rabbit {
namespace {

// Quorum queues drop a message after this many deliveries (20 by default in RabbitMQ 4): a crash loop of ours
// must not reach it. 4.x also accepts -1 for "never", but 3.10 refuses negative values; both accept this one.
constexpr std::int32_t kDeliveryLimit = std::numeric_limits<std::int32_t>::max();

constexpr std::pair<Inlet, std::string_view> kTags[] = {
    {Inlet::failed, "failed"}, {Inlet::results, "results"}, {Inlet::delay, "delay"}};

// Whoever may publish to the second may do no less than whoever may publish to the first: a forged x-death
// gains nobody a right.
constexpr std::pair<std::string_view, std::string_view> kExpiredTo[] = {
    {".failed", ".delay"}, {".delay", ".failed"}, {".results", ".failed"}};

constexpr Ms kNodesWithin{3000};

constexpr std::string_view kAuto = "auto", kClassic = "classic", kQuorum = "quorum";

// The last declare was refused, because it exists with another type or other arguments.
bool found_different(const Calls& calls) {
  return calls.connection.channel_closed() && calls.connection.closing().code == AMQP_PRECONDITION_FAILED;
}

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
Result<void> declare_own_queue(const BrokerOptions& options, OwnQueueTypes& types, const Calls& calls,
                               const std::string& queue, bool may_reopen) {
  const std::string& wanted = options.rabbitmq.queue_type;
  const std::string type = types.of(queue, options, calls.connection.major_version());
  auto done = calls.queue(queue, QueueArguments(type, queue).table());
  if (done || wanted != kAuto || !may_reopen || !found_different(calls)) return done;
  if (auto opened = calls.open_channel(); !opened) return opened;
  const std::string other(type == kQuorum ? kClassic : kQuorum);
  if (!calls.queue(queue, QueueArguments(other, queue).table())) return done;  // another argument differs
  types.found(queue, other);
  return {};
}

// Gets what arrives while the queue is declared anew: broker_headers.h takes it back. "" = nothing arrives
// that must not get lost.
std::string stand_in(const BrokerOptions& options, const std::string& queue) {
  if (queue.ends_with(".parked")) return {};
  return options.prefix + (queue.ends_with(".failed") ? ".results" : ".failed");
}

// Calls `change` (stand-in, exchange) for each exchange that leads to the queue.
template <typename Change>
Result<void> for_stand_in(const BrokerOptions& options, const std::string& queue, Change&& change) {
  const std::string other = stand_in(options, queue);
  if (other.empty()) return {};
  auto done = change(other, queue);
  if (!queue.ends_with(".delay")) return done;
  for (const std::string& from : options.rabbitmq.delay_exchanges) {
    if (done) done = change(other, from);
  }
  return done;
}

// A quorum queue takes the place of a classic one that is declared as ours. The broker refuses if it isn't
// empty, or in use. (It would not refuse to delete a quorum queue, so there is no way back.)
Result<void> make_quorum(const BrokerOptions& options, const Calls& calls, const std::string& queue) {
  const std::string classic(kClassic), quorum(kQuorum);
  amqp_queue_delete_t remove{};
  remove.queue = bytes(queue);
  remove.if_empty = 1;
  remove.if_unused = 1;
  auto done = calls.queue(queue, QueueArguments(classic, queue).table());
  if (done) {
    done = for_stand_in(options, queue, [&](const std::string& other, const std::string& exchange) {
      return calls.bind(other, exchange);
    });
  }
  if (done) done = calls.send(AMQP_QUEUE_DELETE_METHOD, &remove);
  if (done) done = calls.queue(queue, QueueArguments(quorum, queue).table());
  return done;
}

// For a queue that exists with other arguments: declares it anew, or else uses it as it is, since the
// messages in it must be taken in. Reopens the channel.
Result<void> adopt(const BrokerOptions& options, const Calls& calls, const std::string& queue,
                   const Error& why, std::string& adopted) {
  if (auto opened = calls.open_channel(); !opened) return opened;
  const auto found = calls.look_at_queue(queue);
  if (!found) return tl::unexpected(found.error());
  if (options.rabbitmq.queue_type == kQuorum && found->message_count == 0 && found->consumer_count == 0) {
    const auto made = make_quorum(options, calls, queue);
    if (made || !calls.connection.channel_closed()) return made;
    if (auto opened = calls.open_channel(); !opened) return opened;
  }
  add_adopted(adopted, "queue " + queue, why);
  return {};
}

// One pass of repair_topology().
class Repair {
 public:
  Repair(const BrokerOptions& options, OwnQueueTypes& types, const Calls& calls)
      : options_(options), types_(types), calls_(calls) {}

  Result<TopologyReport> run() {
    for (const Declared& one : topology(options_)) {
      exchange(one.name);
      ensure(
          "queue", one.name, [&] { return calls_.look_at_queue(one.name); },
          [&] { return declare_own_queue(options_, types_, calls_, one.name, true); });
      bind(one.name, one.name);
    }
    for (const std::string& from : options_.rabbitmq.delay_exchanges) {
      exchange(from);
      bind(options_.prefix + ".delay", from);
    }
    return_route(return_exchange(options_.prefix));
    if (broken_) return tl::unexpected(*broken_);
    return std::move(report_);
  }

 private:
  void exchange(const std::string& name) {
    ensure(
        "exchange", name, [&] { return calls_.exchange(name, kFanout, true); },
        [&] { return calls_.exchange(name, kFanout); });
  }
  void return_route(const std::string& name) {
    const bool missing = attempt([&] { return calls_.exchange(name, kDirect, true); }) == AMQP_NOT_FOUND;
    const int code = attempt([&] { return declare_exchange(name, calls_); });
    if (missing && code == 0) report_.repaired.push_back("exchange " + name);
    report_.return_route_changed = !broken_ && (missing || code == AMQP_PRECONDITION_FAILED);
    if (code != AMQP_ACCESS_REFUSED || missing) note(code, "exchange", name);
  }

  // A declare that is not passive also compares type and arguments. Missing rights for it do not matter while
  // the exchange or queue exists.
  template <typename Look, typename Declare>
  void ensure(const std::string& what, const std::string& name, Look&& look, Declare&& declare) {
    if (!exists_.insert(what + name).second) return;
    const int code = attempt(look);
    if (broken_ || (code != 0 && code != AMQP_NOT_FOUND)) return note(code, what, name);
    const bool missing = code == AMQP_NOT_FOUND;
    const int declared = attempt(declare);
    if (declared == AMQP_ACCESS_REFUSED && !missing) return;
    if (declared != 0) return note(declared, what, name);
    if (missing) report_.repaired.push_back(what + " " + name);
  }

  void bind(const std::string& queue, const std::string& exchange) {
    const int code = attempt([&] { return calls_.bind(queue, exchange); });
    if (code != AMQP_NOT_FOUND) note(code, "binding of queue " + queue + " to exchange", exchange);
  }

  // 0 = done; else the code with which the broker closed the channel, which has been reopened.
  template <typename Call>
  int attempt(Call&& call) {
    if (broken_) return 0;
    const auto done = call();
    if (done) return 0;
    why_ = done.error().message;
    const int code = calls_.connection.closing().code;
    if (!calls_.open_channel() || code == 0) broken_ = done.error();
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
  const Calls& calls_;
  std::set<std::string> exists_;  // checked in this pass
  std::string why_;               // the broker's text for the last refusal
  std::optional<Error> broken_;   // the connection has ended
  TopologyReport report_;
};

}  // namespace

QueueArguments::QueueArguments(const std::string& type, std::string_view queue) {
  entries_[static_cast<std::size_t>(count_++)] = text_entry("x-queue-type", type);
  for (const auto& [from, to] : kExpiredTo) {
    if (!queue.ends_with(from)) continue;
    expired_to_ = std::string(queue.substr(0, queue.size() - from.size())).append(to);
    entries_[static_cast<std::size_t>(count_++)] = text_entry("x-dead-letter-exchange", expired_to_);
  }
  if (type != kQuorum) return;
  amqp_table_entry_t& limit = entries_[static_cast<std::size_t>(count_++)];
  limit.key = amqp_cstring_bytes("x-delivery-limit");
  limit.value.kind = AMQP_FIELD_KIND_I32;
  limit.value.value.i32 = kDeliveryLimit;
}

std::string OwnQueueTypes::of(const std::string& queue, const BrokerOptions& options, int major_version) {
  if (options.rabbitmq.queue_type != kAuto) return options.rabbitmq.queue_type;
  const std::lock_guard lock(mutex_);
  if (const auto known = types_.find(queue); known != types_.end()) return known->second;
  std::string& of_new = types_[""];
  if (of_new.empty()) {
    const std::size_t nodes = cluster_nodes(options, {}, kNodesWithin).size();
    of_new = nodes > 1 || (nodes == 0 && major_version >= 4) ? kQuorum : kClassic;
  }
  return of_new;
}

void OwnQueueTypes::found(const std::string& queue, std::string type) {
  const std::lock_guard lock(mutex_);
  types_[queue] = std::move(type);
}

Result<TopologyReport> repair_topology(const BrokerOptions& options, OwnQueueTypes& types,
                                       const Calls& calls) {
  return Repair(options, types, calls).run();
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

Result<void> declare_topology(const BrokerOptions& options, OwnQueueTypes& types, const Calls& calls,
                              std::string* adopted) {
  for (const Declared& one : topology(options)) {
    auto done = calls.exchange(one.name, kFanout);
    if (done) done = declare_own_queue(options, types, calls, one.name, adopted != nullptr);
    if (!done && adopted != nullptr && found_different(calls))
      done = adopt(options, calls, one.name, done.error(), *adopted);
    if (done) done = calls.bind(one.name, one.name);
    if (!done) return tl::unexpected(with_name(done.error(), "declaring " + one.name));
  }
  for (const std::string& from : options.rabbitmq.delay_exchanges) {
    auto done = calls.exchange(from, kFanout);
    if (done) done = calls.bind(options.prefix + ".delay", from);
    if (!done) return tl::unexpected(told(done.error(), from));
  }
  if (options.rabbitmq.queue_type != kQuorum) return {};
  for (const Declared& one : topology(options)) {
    auto done = for_stand_in(options, one.name, [&](const std::string& other, const std::string& exchange) {
      return calls.unbind(other, exchange);
    });
    if (!done) return done;
  }
  return {};
}

Result<void> declare_return_exchange(const BrokerOptions& options, const Calls& calls) {
  const auto done = declare_exchange(return_exchange(options.prefix), calls);
  return done || !calls.connection.channel_closed() ? done : calls.open_channel();
}

Result<void> cancel_inlets(const BrokerOptions& options, const Calls& calls) {
  for (const Declared& one : topology(options)) {
    if (!one.consumed) continue;
    auto done = calls.cancel(consumer_tag(*one.inlet));
    if (!done) return tl::unexpected(with_name(done.error(), "cancelling " + one.name));
  }
  return {};
}

Result<void> consume_inlets(const BrokerOptions& options, const Calls& calls) {
  amqp_basic_qos_t qos{};
  qos.prefetch_count =
      static_cast<std::uint16_t>(std::clamp(options.prefetch, 1, 65535));  // for each consumer
  if (auto done = calls.send(AMQP_BASIC_QOS_METHOD, &qos); !done) return done;
  for (const Declared& one : topology(options)) {
    if (!one.consumed) continue;
    amqp_basic_consume_t consume{};
    consume.queue = bytes(one.name);
    consume.consumer_tag = bytes(consumer_tag(*one.inlet));
    auto done = calls.send(AMQP_BASIC_CONSUME_METHOD, &consume);
    if (!done) return tl::unexpected(with_name(done.error(), "consuming " + one.name));
  }
  return {};
}

}  // namespace rung::rabbit
