#include "tests/support/amqp_probe.h"

#include <amqp_framing.h>
#include <amqp_tcp_socket.h>
#include <sys/time.h>

#include <cstdlib>
#include <random>
#include <stdexcept>
#include <thread>

#include "src/core/base/url.h"
#include "tests/support/amqp_table.h"

namespace rung::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr amqp_channel_t kChannel = 1;

timeval until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now()).count();
  return {.tv_sec = left > 0 ? left / 1000000 : 0, .tv_usec = left > 0 ? left % 1000000 : 0};
}

}  // namespace

std::string amqp_url() {
  const char* url = std::getenv("RUNG_TEST_AMQP");
  if (url == nullptr || *url == '\0') {
    throw std::runtime_error("RUNG_TEST_AMQP is not set: this test needs a RabbitMQ (tests/run starts one)");
  }
  return url;
}

std::string unique_name(std::string_view what) {
  static thread_local std::mt19937_64 random{std::random_device{}()};
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016lx", static_cast<unsigned long>(random()));
  return "rungtest-" + std::string(what) + "-" + std::string(hex).substr(6);
}

bool eventually_impl(bool (*call)(void*), void* context, Ms within) {
  const auto deadline = Clock::now() + within;
  for (;;) {
    if (call(context)) return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
}

AmqpProbe::AmqpProbe(const std::string& text) : connection_(amqp_new_connection()) {
  const auto url = parse_url(text);
  if (!url) throw std::runtime_error("RUNG_TEST_AMQP: " + url.error().message);
  amqp_socket_t* socket = amqp_tcp_socket_new(connection_);
  timeval most{.tv_sec = 10, .tv_usec = 0};
  check(amqp_socket_open_noblock(socket, url->host.c_str(), url->port == 0 ? 5672 : url->port, &most),
        "connect");
  check(amqp_login(connection_, url->vhost().c_str(), 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, url->user.c_str(),
                   url->password.c_str()),
        "login");
  reopen_channel();
}

AmqpProbe::~AmqpProbe() {
  amqp_connection_close(connection_, AMQP_REPLY_SUCCESS);
  amqp_destroy_connection(connection_);
}

void AmqpProbe::check(int status, const char* what) {
  if (status < 0) throw std::runtime_error(std::string(what) + ": " + amqp_error_string2(status));
}

void AmqpProbe::check(const amqp_rpc_reply_t& reply, const char* what) {
  if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
  std::string text = what;
  if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) {
    text += std::string(": ") + amqp_error_string2(reply.library_error);
  } else if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
    text += ": " + string_of(static_cast<amqp_channel_close_t*>(reply.reply.decoded)->reply_text);
    amqp_channel_close_ok_t ok{};
    amqp_send_method(connection_, kChannel, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
    reopen_channel();
  } else if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
    text += ": " + string_of(static_cast<amqp_connection_close_t*>(reply.reply.decoded)->reply_text);
  }
  throw std::runtime_error(text);
}

void AmqpProbe::reopen_channel() {
  published_ = 0;
  unconfirmed_.clear();
  amqp_channel_open(connection_, kChannel);
  check(amqp_get_rpc_reply(connection_), "channel.open");
  amqp_confirm_select(connection_, kChannel);
  check(amqp_get_rpc_reply(connection_), "confirm.select");
}

void AmqpProbe::declare(std::string_view queue, const Table& arguments) {
  TableArena arena;
  amqp_queue_declare(connection_, kChannel, bytes_of(queue), 0, 1, 0, 0, arena.table(arguments));
  check(amqp_get_rpc_reply(connection_), "queue.declare");
}

void AmqpProbe::declare_exchange(std::string_view exchange, std::string_view type) {
  amqp_exchange_declare(connection_, kChannel, bytes_of(exchange), bytes_of(type), 0, 1, 0, 0,
                        amqp_empty_table);
  check(amqp_get_rpc_reply(connection_), "exchange.declare");
}

void AmqpProbe::bind(std::string_view queue, std::string_view exchange, std::string_view routing_key) {
  amqp_queue_bind(connection_, kChannel, bytes_of(queue), bytes_of(exchange), bytes_of(routing_key),
                  amqp_empty_table);
  check(amqp_get_rpc_reply(connection_), "queue.bind");
}

std::optional<std::pair<std::uint32_t, std::uint32_t>> AmqpProbe::inspect(std::string_view queue) {
  const auto* ok = amqp_queue_declare(connection_, kChannel, bytes_of(queue), 1, 1, 0, 0, amqp_empty_table);
  if (ok != nullptr) return std::pair{ok->message_count, ok->consumer_count};
  try {
    check(amqp_get_rpc_reply(connection_), "queue.declare passive");
  } catch (const std::runtime_error& e) {
    if (std::string_view(e.what()).find("NOT_FOUND") == std::string_view::npos) throw;
  }
  return std::nullopt;
}

int AmqpProbe::major_version() const {
  const amqp_table_t* properties = amqp_get_server_properties(connection_);
  for (int i = 0; i < properties->num_entries; ++i) {
    const amqp_table_entry_t& entry = properties->entries[i];
    const std::string name(static_cast<const char*>(entry.key.bytes), entry.key.len);
    if (name != "version") continue;
    const amqp_bytes_t& version = entry.value.value.bytes;
    return std::stoi(std::string(static_cast<const char*>(version.bytes), version.len));
  }
  return 0;
}

bool AmqpProbe::queue_exists(std::string_view queue) { return inspect(queue).has_value(); }

std::optional<std::uint32_t> AmqpProbe::depth(std::string_view queue) {
  const auto counts = inspect(queue);
  if (!counts) return std::nullopt;
  return counts->first;
}

std::optional<std::uint32_t> AmqpProbe::consumers(std::string_view queue) {
  const auto counts = inspect(queue);
  if (!counts) return std::nullopt;
  return counts->second;
}

bool AmqpProbe::exchange_exists(std::string_view exchange) {
  amqp_exchange_declare(connection_, kChannel, bytes_of(exchange), bytes_of("fanout"), 1, 1, 0, 0,
                        amqp_empty_table);
  try {
    check(amqp_get_rpc_reply(connection_), "exchange.declare passive");
  } catch (const std::runtime_error& e) {
    if (std::string_view(e.what()).find("NOT_FOUND") == std::string_view::npos) throw;
    return false;
  }
  return true;
}

void AmqpProbe::purge(std::string_view queue) {
  amqp_queue_purge(connection_, kChannel, bytes_of(queue));
  check(amqp_get_rpc_reply(connection_), "queue.purge");
}

void AmqpProbe::remove(std::string_view queue) {
  amqp_queue_delete(connection_, kChannel, bytes_of(queue), 0, 0);
  check(amqp_get_rpc_reply(connection_), "queue.delete");
}

void AmqpProbe::remove_exchange(std::string_view exchange) {
  amqp_exchange_delete(connection_, kChannel, bytes_of(exchange), 0);
  check(amqp_get_rpc_reply(connection_), "exchange.delete");
}

void AmqpProbe::remove_place(const std::string& prefix) {
  for (const char* name : {".failed", ".results", ".delay", ".parked", ".return"}) {
    remove(prefix + name);
    remove_exchange(prefix + name);
  }
}

void AmqpProbe::publish_one(std::string_view exchange, std::string_view routing_key, const Message& message) {
  TableArena arena;
  const amqp_basic_properties_t properties = properties_of(message, arena);
  check(amqp_basic_publish(connection_, kChannel, bytes_of(exchange), bytes_of(routing_key), 1, 0,
                           &properties, bytes_of(message.body)),
        "basic.publish");
  unconfirmed_.insert(++published_);
}

// Reads until every publish has its confirm; how many came back.
int AmqpProbe::settle() {
  const auto deadline = Clock::now() + kBound;
  int returned = 0;
  amqp_frame_t frame{};
  while (!unconfirmed_.empty()) {
    if (!read_frame(frame, deadline)) throw std::runtime_error("basic.publish: no confirm");
    if (frame.frame_type != AMQP_FRAME_METHOD) continue;
    const void* decoded = frame.payload.method.decoded;
    switch (frame.payload.method.id) {
      case AMQP_BASIC_RETURN_METHOD:
        read_content(deadline);
        ++returned;
        break;
      case AMQP_BASIC_DELIVER_METHOD:
        inbox_.push_back(read_delivery(*static_cast<const amqp_basic_deliver_t*>(decoded)));
        break;
      case AMQP_BASIC_ACK_METHOD: {
        const auto* ack = static_cast<const amqp_basic_ack_t*>(decoded);
        const auto last = unconfirmed_.upper_bound(ack->delivery_tag);
        unconfirmed_.erase(ack->multiple != 0 ? unconfirmed_.begin() : unconfirmed_.find(ack->delivery_tag),
                           last);
        break;
      }
      case AMQP_BASIC_NACK_METHOD:
        throw std::runtime_error("basic.publish: nacked");
      default:
        break;
    }
  }
  return returned;
}

bool AmqpProbe::publish(std::string_view exchange, std::string_view routing_key, const Message& message) {
  publish_one(exchange, routing_key, message);
  return settle() == 0;
}

void AmqpProbe::publish_all(std::string_view exchange, std::string_view routing_key,
                            const std::vector<Message>& messages) {
  constexpr std::size_t kWindow = 200;  // unread confirms stay few, so that the broker never waits for us
  for (std::size_t i = 0; i < messages.size(); ++i) {
    publish_one(exchange, routing_key, messages[i]);
    if (((i + 1) % kWindow == 0 || i + 1 == messages.size()) && settle() != 0) {
      throw std::runtime_error("publish_all: returned");
    }
  }
}

bool AmqpProbe::read_frame(amqp_frame_t& frame, Clock::time_point deadline) {
  amqp_maybe_release_buffers(connection_);
  timeval most = until(deadline);
  const int status = amqp_simple_wait_frame_noblock(connection_, &frame, &most);
  if (status == AMQP_STATUS_TIMEOUT) return false;
  check(status, "reading");
  if (frame.frame_type == AMQP_FRAME_METHOD && (frame.payload.method.id == AMQP_CHANNEL_CLOSE_METHOD ||
                                                frame.payload.method.id == AMQP_CONNECTION_CLOSE_METHOD)) {
    amqp_rpc_reply_t reply{};
    reply.reply_type = AMQP_RESPONSE_SERVER_EXCEPTION;
    reply.reply = frame.payload.method;
    check(reply, "closed by the broker");
  }
  return true;
}

Message AmqpProbe::read_content(Clock::time_point deadline) {
  Message message;
  amqp_frame_t frame{};
  timeval most = until(deadline);
  check(amqp_simple_wait_frame_noblock(connection_, &frame, &most), "content header");
  if (frame.frame_type != AMQP_FRAME_HEADER) throw std::runtime_error("no content header");
  const std::uint64_t size = frame.payload.properties.body_size;
  properties_into(message, *static_cast<amqp_basic_properties_t*>(frame.payload.properties.decoded));
  std::string body;
  body.reserve(size);
  while (body.size() < size) {
    most = until(deadline);
    check(amqp_simple_wait_frame_noblock(connection_, &frame, &most), "content body");
    if (frame.frame_type != AMQP_FRAME_BODY) throw std::runtime_error("no content body");
    body += string_of(frame.payload.body_fragment);
  }
  message.body = std::move(body);
  return message;
}

std::optional<Received> AmqpProbe::get(std::string_view queue) {
  amqp_maybe_release_buffers(connection_);
  const amqp_rpc_reply_t reply = amqp_basic_get(connection_, kChannel, bytes_of(queue), 0);
  check(reply, "basic.get");
  if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD) return std::nullopt;
  const auto* ok = static_cast<amqp_basic_get_ok_t*>(reply.reply.decoded);
  Received received{
      ok->delivery_tag, ok->redelivered != 0, string_of(ok->exchange), string_of(ok->routing_key), {}};
  received.message = read_content(Clock::now() + kBound);
  return received;
}

std::optional<Received> AmqpProbe::get_within(std::string_view queue, Ms within) {
  std::optional<Received> received;
  eventually([&] { return (received = get(queue)).has_value(); }, within);
  return received;
}

std::vector<Received> AmqpProbe::take(std::string_view queue, std::size_t count, Ms within) {
  std::vector<Received> out;
  const auto deadline = Clock::now() + within;
  while (out.size() < count) {
    const auto left = std::chrono::duration_cast<Ms>(deadline - Clock::now());
    auto received = get_within(queue, std::max(left, Ms{0}));
    if (!received) break;
    ack(*received);
    out.push_back(std::move(*received));
  }
  return out;
}

void AmqpProbe::ack(const Received& received) {
  check(amqp_basic_ack(connection_, kChannel, received.tag, 0), "basic.ack");
}

void AmqpProbe::reject(const Received& received, bool requeue) {
  check(amqp_basic_reject(connection_, kChannel, received.tag, requeue ? 1 : 0), "basic.reject");
}

void AmqpProbe::consume(std::string_view queue, int prefetch, bool exclusive) {
  amqp_basic_qos(connection_, kChannel, 0, static_cast<std::uint16_t>(prefetch), 0);
  check(amqp_get_rpc_reply(connection_), "basic.qos");
  amqp_basic_consume(connection_, kChannel, bytes_of(queue), amqp_empty_bytes, 0, 0, exclusive ? 1 : 0,
                     amqp_empty_table);
  check(amqp_get_rpc_reply(connection_), "basic.consume");
}

Received AmqpProbe::read_delivery(const amqp_basic_deliver_t& method) {
  Received received{method.delivery_tag,
                    method.redelivered != 0,
                    string_of(method.exchange),
                    string_of(method.routing_key),
                    {}};
  received.message = read_content(Clock::now() + kBound);
  return received;
}

std::optional<Received> AmqpProbe::next(Ms within) {
  if (!inbox_.empty()) {
    Received received = std::move(inbox_.front());
    inbox_.pop_front();
    return received;
  }
  const auto deadline = Clock::now() + within;
  amqp_frame_t frame{};
  while (read_frame(frame, deadline)) {
    if (frame.frame_type == AMQP_FRAME_METHOD && frame.payload.method.id == AMQP_BASIC_DELIVER_METHOD) {
      return read_delivery(*static_cast<const amqp_basic_deliver_t*>(frame.payload.method.decoded));
    }
  }
  return std::nullopt;
}

}  // namespace rung::test
