#include "plugin/rabbitmq/topology/topology.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "plugin/rabbitmq/topology/attachment.h"
#include "plugin/rabbitmq/topology/return_route.h"

namespace rung::rabbit {
namespace {

// Quorum queues drop a message after this many deliveries (20 by default in RabbitMQ 4): a crash loop of ours
// must not reach it. 4.x also accepts -1 for "never", but 3.10 refuses negative values; both accept this one.
constexpr std::int32_t kDeliveryLimit = std::numeric_limits<std::int32_t>::max();

// Whoever may publish to the second may do no less than whoever may publish to the first: a forged x-death
// gains nobody a right.
constexpr std::pair<std::string_view, std::string_view> kExpiredTo[] = {
    {".failed", ".delay"}, {".delay", ".failed"}, {".results", ".failed"}};

constexpr Ms kNodesWithin{3000};

constexpr std::string_view kAuto = "auto", kClassic = "classic", kQuorum = "quorum";

// Declares `queue`, one of Rung's own. The type is written out: otherwise the virtual host's default queue
// type decides. A message may expire in an inlet, by its own TTL: then it goes to another inlet (not to the
// same one: RabbitMQ drops such a cycle), and broker_headers.h takes it back.
Result<void> declare_queue(const Calls& calls, const std::string& queue, std::string_view type) {
  std::array<amqp_table_entry_t, 3> arguments{text_entry("x-queue-type", type)};
  int count = 1;
  std::string expired_to;
  for (const auto& [from, to] : kExpiredTo) {
    if (!queue.ends_with(from)) continue;
    expired_to = queue.substr(0, queue.size() - from.size()).append(to);
    arguments[static_cast<std::size_t>(count++)] = text_entry("x-dead-letter-exchange", expired_to);
  }
  if (type == kQuorum) {
    amqp_table_entry_t& limit = arguments[static_cast<std::size_t>(count++)];
    limit.key = amqp_cstring_bytes("x-delivery-limit");
    limit.value.kind = AMQP_FIELD_KIND_I32;
    limit.value.value.i32 = kDeliveryLimit;
  }
  return calls.queue(queue, {count, arguments.data()});
}

class Comparison {
 public:
  Comparison(const BrokerOptions& options, OwnQueueTypes& types, const Calls& calls, Pass pass)
      : options_(options), types_(types), calls_(calls), pass_(pass) {}

  Result<TopologyReport> run() {
    for (const Declared& one : topology(options_)) {
      exchange(one.name);
      queue(one.name);
      bind(one.name, one.name);
    }
    for (const std::string& from : options_.rabbitmq.delay_exchanges) {
      exchange(from);
      bind(options_.prefix + ".delay", from);
    }
    if (pass_ == Pass::start && options_.rabbitmq.queue_type == kQuorum) {
      for (const Declared& one : topology(options_)) {
        change_stand_in(one.name, [&](const std::string& other, const std::string& from) {
          return calls_.unbind(other, from);
        });
      }
    }
    if (pass_ != Pass::consuming) return_route(return_exchange(options_.prefix));
    if (broken_) return tl::unexpected(*broken_);
    return std::move(report_);
  }

 private:
  void exchange(const std::string& name) {
    ensure(
        "exchange", name, [&] { return calls_.exchange(name, kFanout, true); },
        [&] { return calls_.exchange(name, kFanout); });
  }

  void queue(const std::string& name) {
    ensure(
        "queue", name, [&] { return calls_.look_at_queue(name); }, [&] { return own_queue(name); });
  }

  // One that exists with another type is tried with that, on a channel that is opened again.
  Result<void> own_queue(const std::string& name) {
    const std::string type = types_.of(name, options_, calls_.connection.major_version());
    auto done = declare_queue(calls_, name, type);
    const bool another =
        calls_.connection.channel_closed() && calls_.connection.closing().code == AMQP_PRECONDITION_FAILED;
    if (done || options_.rabbitmq.queue_type != kAuto || pass_ == Pass::consuming || !another) return done;
    if (auto opened = calls_.open_channel(); !opened) return opened;
    const std::string other(type == kQuorum ? kClassic : kQuorum);
    if (!declare_queue(calls_, name, other)) return done;  // another argument differs
    types_.found(name, other);
    return {};
  }

  void return_route(const std::string& name) {
    const bool missing = pass_ == Pass::check &&
                         attempt([&] { return calls_.exchange(name, kDirect, true); }) == AMQP_NOT_FOUND;
    const int code = attempt([&] { return declare_exchange(name, calls_); });
    if (pass_ == Pass::start) return;  // the first check tells it
    if (missing && code == 0) report_.repaired.push_back("exchange " + name);
    report_.return_route_changed = !broken_ && (missing || code == AMQP_PRECONDITION_FAILED);
    if (code != AMQP_ACCESS_REFUSED || missing) note(code, "exchange", name);
  }

  // A declare that is not passive also compares type and arguments. Missing rights for it do not matter while
  // the exchange or queue exists.
  template <typename Look, typename Declare>
  void ensure(const std::string& what, const std::string& name, Look&& look, Declare&& declare) {
    if (!exists_.insert(what + name).second) return;
    bool missing = false;
    if (pass_ == Pass::check) {
      const int code = attempt(look);
      if (broken_ || (code != 0 && code != AMQP_NOT_FOUND)) return note(code, what, name);
      missing = code == AMQP_NOT_FOUND;
    }
    const int code = attempt(declare);
    if (code == AMQP_ACCESS_REFUSED && pass_ == Pass::check && !missing) return;
    if (code == 0 && missing) report_.repaired.push_back(what + " " + name);
    if (code == AMQP_PRECONDITION_FAILED && pass_ == Pass::start && what == "queue") {
      const Error why = why_;
      if (becomes_quorum(name)) return;
      why_ = why;
    }
    note(code, what, name);
  }

  void bind(const std::string& queue, const std::string& exchange) {
    const int code = attempt([&] { return calls_.bind(queue, exchange); });
    if (code != AMQP_NOT_FOUND || pass_ != Pass::check)
      note(code, "binding of queue " + queue + " to exchange", exchange);
  }

  // A quorum queue takes the place of a classic one that is declared as ours. The broker refuses if it isn't
  // empty, or in use. (It would not refuse to delete a quorum queue, so there is no way back.)
  bool becomes_quorum(const std::string& name) {
    if (options_.rabbitmq.queue_type != kQuorum || broken_) return false;
    bool idle = false;
    attempt([&] {
      auto found = calls_.look_at_queue(name);
      idle = found && found->message_count == 0 && found->consumer_count == 0;
      return found;
    });
    if (!idle) return false;
    amqp_queue_delete_t remove{};
    remove.queue = bytes(name);
    remove.if_empty = 1;
    remove.if_unused = 1;
    const bool done =
        attempt([&] { return declare_queue(calls_, name, kClassic); }) == 0 &&
        change_stand_in(name, [&](const std::string& other,
                                  const std::string& from) { return calls_.bind(other, from); }) &&
        attempt([&] { return calls_.send(AMQP_QUEUE_DELETE_METHOD, &remove); }) == 0 &&
        attempt([&] { return declare_queue(calls_, name, kQuorum); }) == 0;
    return done && !broken_;
  }

  // Calls `change` (stand-in, exchange) for each exchange that leads to the queue. The stand-in gets what
  // arrives while the queue is declared anew: broker_headers.h takes it back. There is none where nothing
  // arrives that must not get lost.
  template <typename Change>
  bool change_stand_in(const std::string& queue, Change&& change) {
    if (queue.ends_with(".parked")) return true;
    const std::string other = options_.prefix + (queue.ends_with(".failed") ? ".results" : ".failed");
    bool done = attempt([&] { return change(other, queue); }) == 0;
    if (!queue.ends_with(".delay")) return done;
    for (const std::string& from : options_.rabbitmq.delay_exchanges)
      done = done && attempt([&] { return change(other, from); }) == 0;
    return done;
  }

  // 0 = done; else the code with which the broker closed the channel, which has been reopened.
  template <typename Call>
  int attempt(Call&& call) {
    if (broken_) return 0;
    const auto done = call();
    if (done) return 0;
    why_ = done.error();
    const int code = calls_.connection.closing().code;
    if (!calls_.open_channel() || code == 0) broken_ = done.error();
    return code;
  }

  void note(int code, const std::string& what, const std::string& name) {
    if (code == 0 || broken_) return;
    const std::string told = what + " " + name + ": " + why_.message + remedy(code, what, name);
    if (pass_ == Pass::check ||
        (what == "queue" && code == AMQP_PRECONDITION_FAILED && pass_ == Pass::start)) {
      report_.problem += (report_.problem.empty() ? "" : "; ") + told;
    } else {
      broken_ = Error{why_.kind, told};
    }
  }

  std::string remedy(int code, const std::string& what, const std::string& name) const {
    const std::string vhost = shell_quote(options_.vhost());
    if (code == AMQP_ACCESS_REFUSED) {
      return " (see `rabbitmqctl list_permissions -p " + vhost +
             "`: the user needs configure, write and read on " + options_.prefix + ".*)";
    }
    if (code != AMQP_PRECONDITION_FAILED) return "";
    if (what == "queue")
      return " (it exists with other arguments, and is used as it is: set broker.queue_type to the type that "
             "it has, or once nothing uses it, `rabbitmqctl delete_queue -p " +
             vhost + " " + shell_quote(name) + "`, and Rung declares it again)";
    // One of `delays:` usually is the delayed-message plugin's.
    const bool delays = std::ranges::count(options_.rabbitmq.delay_exchanges, name) > 0;
    return std::string(" (it exists with other properties: once nothing ") +
           (delays ? "waits in it" : "uses it") + ", `rabbitmqadmin -V " + vhost +
           " delete exchange name=" + shell_quote(name) + "`, and Rung declares it again" +
           (delays ? "; docs/moving-from-the-delayed-exchange.md)" : ")");
  }

  const BrokerOptions& options_;
  OwnQueueTypes& types_;
  const Calls& calls_;
  const Pass pass_;
  std::set<std::string> exists_;  // compared in this pass
  Error why_;                     // the last refusal
  std::optional<Error> broken_;   // the pass has ended: a refusal, or the end of the connection
  TopologyReport report_;
};

}  // namespace

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

std::vector<Declared> topology(const BrokerOptions& options) {
  return {{options.prefix + ".failed", Inlet::failed},
          {options.prefix + ".delay", Inlet::delay},
          {options.prefix + ".results", Inlet::results},
          {options.prefix + ".parked", std::nullopt}};
}

Result<TopologyReport> declare_topology(const BrokerOptions& options, OwnQueueTypes& types,
                                        const Calls& calls, Pass pass) {
  return Comparison(options, types, calls, pass).run();
}

}  // namespace rung::rabbit
