#include "plugin/rabbitmq/topology/probe.h"

#include "plugin/rabbitmq/topology/topology.h"
#include "src/core/base/url.h"

namespace rung::rabbit {
namespace {

constexpr std::size_t kMostOfName = 255;  // of the cluster's name, which its users choose

std::string owner_exchange(const std::string& prefix) { return prefix + ".owner"; }

std::string database_name(const std::string& prefix, const std::string& database) {
  return prefix + ".database-" + database;
}

// What became of a declare: 0 = done; else the code of the refusal, whose text is then in `refusal`; the
// channel has been opened again. Error: the connection has ended.
Result<int> outcome(const Calls& calls, const Result<void>& declared, std::string& refusal) {
  if (declared) return 0;
  if (!calls.connection.channel_closed()) return tl::unexpected(declared.error());
  refusal = declared.error().message;
  const int code = calls.connection.closing().code;
  if (auto opened = calls.open_channel(); !opened) return tl::unexpected(opened.error());
  return code;
}

// From "... received the value 'A' ... but current is the value 'B' ...", of which the end may be missing.
std::string owner_in(std::string_view refusal, const std::string& prefix) {
  const std::string before = database_name(prefix, "");
  const std::size_t current = refusal.find("but current is");
  if (current == std::string_view::npos) return std::string(kUnknownOwner);
  std::size_t at = refusal.find(before, current);
  if (at == std::string_view::npos) return std::string(kUnknownOwner);
  at += before.size();
  const std::size_t end = refusal.find('\'', at);
  if (end == std::string_view::npos || end == at) return std::string(kUnknownOwner);
  return std::string(refusal.substr(at, end - at));
}

}  // namespace

Result<PlaceReport> read_owner(const BrokerOptions& options, const OwnerClaim& claim, const Calls& calls) {
  PlaceReport report;
  report.place = {calls.connection.cluster().substr(0, kMostOfName), calls.connection.address().url.vhost(),
                  options.prefix};
  report.asked_for = claim.database;
  const std::string name = owner_exchange(options.prefix);
  std::string refusal;
  const auto there = outcome(calls, calls.exchange(name, kFanout, true), refusal);
  if (!there) return tl::unexpected(there.error());
  if (*there == AMQP_NOT_FOUND && !claim.mark) return report;
  int code = *there;
  if (code == 0 || code == AMQP_NOT_FOUND) {
    // Also creates it: whoever comes first, and the other is refused here.
    const std::string alternate = database_name(options.prefix, claim.database);
    const auto ours = outcome(calls, calls.exchange_with_alternate(name, kFanout, alternate), refusal);
    if (!ours) return tl::unexpected(ours.error());
    code = *ours;
  }
  if (code == 0) {
    report.owner = claim.database;
  } else if (code == AMQP_PRECONDITION_FAILED) {
    report.owner = owner_in(refusal, options.prefix);
  } else {
    report.problem =
        "exchange " + name + ", which shows whose the prefix is: " + refusal + " (docs/permissions.md)";
  }
  const auto inlet = calls.look_at_queue(options.prefix + ".failed");
  if (inlet) {
    report.consumers = inlet->consumer_count;
  } else if (const auto none = outcome(calls, tl::unexpected(inlet.error()), refusal); !none) {
    return tl::unexpected(none.error());
  }
  return report;
}

// --- the probe ---

Result<void> may_consume(const Calls& calls, std::string_view queue) {
  // RabbitMQ checks the permission before the arguments: it refuses an invalid one without consuming.
  amqp_table_entry_t invalid = text_entry("x-priority", "rung: not a number, to test the permission");
  const auto done = calls.consume(queue, {1, &invalid});
  const int code = calls.connection.closing().code;
  if (done || code == AMQP_PRECONDITION_FAILED) return {};
  return code == AMQP_NOT_FOUND ? not_found(done.error().message) : tl::unexpected(done.error());
}

Result<std::unique_ptr<Probe>> Probe::open(const BrokerOptions& options, const Clock& clock, Ms timeout,
                                           const std::string& purpose) {
  auto endpoints = make_endpoints(options, clock);
  if (!endpoints) return tl::unexpected(endpoints.error());
  std::unique_ptr<Probe> its(new Probe(clock, timeout));
  auto opened = Connection::open(*endpoints->addresses, *endpoints->access, options.heartbeat,
                                 options.connection_name + " (" + purpose + ")", its->waker_, timeout);
  if (!opened) return tl::unexpected(opened.error());
  its->connection_ = *std::move(opened);
  return its;
}

Probe::~Probe() {
  if (connection_ != nullptr) connection_->close(waker_.now() + std::chrono::seconds{1});
}

std::vector<AddressFacts> look_at_addresses(const BrokerOptions& options, const Clock& clock, Ms timeout) {
  const auto endpoints = make_endpoints(options, clock);
  if (!endpoints) return {{"broker.urls", endpoints.error(), ""}};
  std::vector<AddressFacts> all;
  const auto found = endpoints->addresses->find(clock.boot() + timeout, {});
  for (const Address& address : found.all) {
    Waker waker(clock);
    auto opened = Connection::open_at(address, *endpoints->access, options.heartbeat,
                                      options.connection_name + " (doctor)", waker, clock.boot() + timeout);
    if (!opened) {
      all.push_back({address.shown, opened.error(), ""});
      continue;
    }
    all.push_back({address.shown, Error{Error::Kind::transient, ""}, (*opened)->cluster()});
    (*opened)->close(clock.boot() + std::chrono::seconds{1});
  }
  for (const Error& error : found.missing) all.push_back({"a host of broker.urls", error, ""});
  return all;
}

Calls Probe::calls() {
  return {*connection_, waker_, waker_.now() + timeout_, [this](const Frame& frame) {
            if (frame.method() != AMQP_CONNECTION_BLOCKED_METHOD) return;
            const auto* m = connection_->decode<amqp_connection_blocked_t>(frame);
            blocked_ = m != nullptr ? std::string(view(m->reason)) : "no reason given";
          }};
}

template <typename Ask>
std::invoke_result_t<Ask, const Calls&> Probe::check(Ask&& ask) {
  if (!channel_open_) {
    if (auto opened = calls().open_channel(); !opened) return tl::unexpected(opened.error());
  }
  const Calls its = calls();
  auto done = ask(its);
  channel_open_ = done.has_value();
  if (!done && its.connection.closing().code == AMQP_NOT_FOUND) return not_found(done.error().message);
  return done;
}

Result<void> Probe::declare(const BrokerOptions& options) {
  OwnQueueTypes types;
  return check([&](const Calls& calls) -> Result<void> {
    const auto report = declare_topology(options, types, calls, Pass::start);
    if (!report) return tl::unexpected(report.error());
    return {};  // the sidecar and rung doctor tell what is used as it is
  });
}

Result<void> Probe::exchange_exists(std::string_view name) {
  return check([&](const Calls& calls) { return calls.exchange(name, kFanout, true); });
}

Result<void> Probe::queue_exists(std::string_view name) {
  if (const auto found = depth(name); !found) return tl::unexpected(found.error());
  return {};
}

Result<Probe::Depth> Probe::depth(std::string_view queue) {
  return check([&](const Calls& calls) -> Result<Depth> {
    const auto found = calls.look_at_queue(queue);
    if (!found) return tl::unexpected(found.error());
    return Depth{found->message_count, found->consumer_count};
  });
}

Result<void> Probe::may_bind(std::string_view queue, std::string_view exchange) {
  return check(
      [&](const Calls& calls) { return calls.unbind(queue, exchange, "rung.doctor: no such binding"); });
}

Result<void> Probe::may_declare(const std::string& name) {
  amqp_queue_declare_t fields{};
  fields.queue = bytes(name);
  fields.exclusive = 1;
  fields.auto_delete = 1;
  return check([&](const Calls& calls) { return calls.send(AMQP_QUEUE_DECLARE_METHOD, &fields); });
}

Result<void> Probe::may_read(std::string_view queue) {
  amqp_basic_get_t fields{};
  fields.queue = bytes(queue);
  fields.no_ack = 1;
  return check([&](const Calls& calls) {
    return calls.send(AMQP_BASIC_GET_METHOD, &fields, AMQP_BASIC_GET_EMPTY_METHOD);
  });
}

Result<void> Probe::may_consume(std::string_view queue) {
  auto done = check([&](const Calls& calls) { return rabbit::may_consume(calls, queue); });
  channel_open_ = false;
  return done;
}

Result<PlaceReport> Probe::owner(const BrokerOptions& options, const OwnerClaim& claim) {
  return check([&](const Calls& calls) { return read_owner(options, claim, calls); });
}

Result<void> Probe::remove_mark(const BrokerOptions& options) {
  const std::string name = owner_exchange(options.prefix);
  amqp_exchange_delete_t fields{};
  fields.exchange = bytes(name);
  return check([&](const Calls& calls) { return calls.send(AMQP_EXCHANGE_DELETE_METHOD, &fields); });
}

Result<void> Probe::may_publish(std::string_view exchange, std::string_view unbound_key) {
  amqp_basic_publish_t fields{};
  fields.exchange = bytes(exchange);
  fields.routing_key = bytes(unbound_key);
  return check([&](const Calls& calls) {
    calls.connection.method(kChannel, AMQP_BASIC_PUBLISH_METHOD, &fields);
    // Class basic, weight 0, body size 0, no properties.
    calls.connection.frame(AMQP_FRAME_HEADER, kChannel,
                           std::string_view("\0\x3c\0\0\0\0\0\0\0\0\0\0\0\0", 14));
    // A refusal arrives before the answer to a later request.
    return calls.prefetch(0);
  });
}

}  // namespace rung::rabbit
