#include "plugin/rabbitmq/topology/probe.h"

#include "plugin/rabbitmq/topology/broker_endpoints.h"

namespace rung::rabbit {
namespace {

constexpr std::uint8_t kContentHeader = 2;  // a frame's type

}  // namespace

Result<void> may_consume(Connection& connection, std::string_view queue, Waker& waker, BootMs deadline,
                         const Connection::Others& others) {
  // RabbitMQ checks the permission before the arguments: it refuses an invalid one without consuming.
  amqp_table_entry_t invalid{};
  invalid.key = bytes("x-priority");
  invalid.value.kind = AMQP_FIELD_KIND_UTF8;
  invalid.value.value.bytes = bytes("rung: not a number, to test the permission");
  amqp_basic_consume_t fields{};
  fields.queue = bytes(queue);
  fields.arguments = {1, &invalid};
  const auto done = connection.call(AMQP_BASIC_CONSUME_METHOD, &fields, AMQP_BASIC_CONSUME_OK_METHOD, waker,
                                    deadline, others);
  if (done || connection.closing().code == AMQP_PRECONDITION_FAILED) return {};
  if (connection.closing().code == AMQP_NOT_FOUND) return not_found(done.error().message);
  return tl::unexpected(done.error());
}

Result<std::unique_ptr<Probe>> Probe::open(const BrokerOptions& options, const Clock& clock, Ms timeout) {
  auto endpoints = make_endpoints(options, clock);
  if (!endpoints) return tl::unexpected(endpoints.error());
  std::unique_ptr<Probe> probe(new Probe(clock));
  probe->timeout_ = timeout;
  auto opened = Connection::open(*endpoints->addresses, *endpoints->access, options.heartbeat,
                                 options.connection_name + " (doctor)", probe->waker_, timeout);
  if (!opened) return tl::unexpected(opened.error());
  probe->connection_ = *std::move(opened);
  return probe;
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

Probe::~Probe() {
  if (connection_ != nullptr) connection_->close(waker_.now() + std::chrono::seconds{1});
}

Connection::Others Probe::others() {
  return [this](const Frame& frame) {
    if (frame.method() != AMQP_CONNECTION_BLOCKED_METHOD) return;
    const auto* m = connection_->decode<amqp_connection_blocked_t>(frame);
    blocked_ = m != nullptr ? std::string(view(m->reason)) : "no reason given";
  };
}

Result<void> Probe::channel() {
  if (channel_open_) return {};
  auto opened = connection_->open_channel(waker_, waker_.now() + timeout_, others());
  channel_open_ = opened.has_value();
  return opened;
}

Result<void> Probe::ask(amqp_method_number_t id, const void* fields, amqp_method_number_t answer) {
  auto done = connection_->call(id, fields, answer, waker_, waker_.now() + timeout_, others());
  if (done) return {};
  channel_open_ = false;
  if (connection_->closing().code == AMQP_NOT_FOUND) return not_found(done.error().message);
  return tl::unexpected(done.error());
}

Result<void> Probe::exchange_exists(std::string_view name) {
  if (auto ready = channel(); !ready) return ready;
  amqp_exchange_declare_t fields{};
  fields.exchange = bytes(name);
  fields.type = amqp_cstring_bytes("fanout");
  fields.passive = 1;
  return ask(AMQP_EXCHANGE_DECLARE_METHOD, &fields, AMQP_EXCHANGE_DECLARE_OK_METHOD);
}

Result<void> Probe::queue_exists(std::string_view name) {
  if (auto ready = channel(); !ready) return ready;
  amqp_queue_declare_t fields{};
  fields.queue = bytes(name);
  fields.passive = 1;
  return ask(AMQP_QUEUE_DECLARE_METHOD, &fields, AMQP_QUEUE_DECLARE_OK_METHOD);
}

Result<void> Probe::may_bind(std::string_view queue, std::string_view exchange) {
  if (auto ready = channel(); !ready) return ready;
  amqp_queue_unbind_t fields{};
  fields.queue = bytes(queue);
  fields.exchange = bytes(exchange);
  fields.routing_key = bytes("rung.doctor: no such binding");
  return ask(AMQP_QUEUE_UNBIND_METHOD, &fields, AMQP_QUEUE_UNBIND_OK_METHOD);
}

Result<void> Probe::may_declare(const std::string& name) {
  if (auto ready = channel(); !ready) return ready;
  amqp_queue_declare_t fields{};
  fields.queue = bytes(name);
  fields.exclusive = 1;
  fields.auto_delete = 1;
  return ask(AMQP_QUEUE_DECLARE_METHOD, &fields, AMQP_QUEUE_DECLARE_OK_METHOD);
}

Result<void> Probe::may_read(std::string_view queue) {
  if (auto ready = channel(); !ready) return ready;
  amqp_basic_get_t fields{};
  fields.queue = bytes(queue);
  fields.no_ack = 1;
  return ask(AMQP_BASIC_GET_METHOD, &fields, AMQP_BASIC_GET_EMPTY_METHOD);
}

Result<void> Probe::may_consume(std::string_view queue) {
  if (auto ready = channel(); !ready) return ready;
  channel_open_ = false;
  return rabbit::may_consume(*connection_, queue, waker_, waker_.now() + timeout_, others());
}

Result<PlaceReport> Probe::owner(const BrokerOptions& options, const OwnerClaim& claim) {
  if (auto ready = channel(); !ready) return tl::unexpected(ready.error());
  return read_owner(options, claim, *connection_, waker_, waker_.now() + timeout_);
}

Result<void> Probe::remove_mark(const BrokerOptions& options) {
  if (auto ready = channel(); !ready) return ready;
  auto done = delete_owner(options, *connection_, waker_, waker_.now() + timeout_);
  if (!done) channel_open_ = false;
  return done;
}

Result<void> Probe::may_publish(std::string_view exchange, std::string_view unbound_key) {
  if (auto ready = channel(); !ready) return ready;
  amqp_basic_publish_t fields{};
  fields.exchange = bytes(exchange);
  fields.routing_key = bytes(unbound_key);
  connection_->method(kChannel, AMQP_BASIC_PUBLISH_METHOD, &fields);
  // Class basic, weight 0, body size 0, no properties.
  connection_->frame(kContentHeader, kChannel, std::string_view("\0\x3c\0\0\0\0\0\0\0\0\0\0\0\0", 14));
  // A refusal arrives before the answer to a later request.
  amqp_basic_qos_t qos{};
  return ask(AMQP_BASIC_QOS_METHOD, &qos, AMQP_BASIC_QOS_OK_METHOD);
}

}  // namespace rung::rabbit
