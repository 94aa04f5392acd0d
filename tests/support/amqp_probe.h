// A plain AMQP client for tests, built on rabbitmq-c's own calls. It shares no code with plugin/rabbitmq, so
// that an error in one is not hidden by the same error in the other. Failures throw std::runtime_error with
// the broker's text, which fails the test. Thread: one thread per object; each has its own connection.
#pragma once

#include <amqp.h>
#include <amqp_framing.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/time.h"
#include "src/core/message/message.h"

namespace rung::test {

// RUNG_TEST_AMQP; throws if it is not set (a missing server fails a test, it does not skip it).
std::string amqp_url();

// "rungtest-<what>-<random>": for prefixes and queues, so that tests run side by side.
std::string unique_name(std::string_view what);

// Time limit of every wait: generous, for a machine under load; not the time that it should take.
inline constexpr Ms kBound{std::chrono::minutes{2}};

// Waits until `done()` is true, polling every few ms; false if `within` passes first.
template <typename Done>
bool eventually(Done&& done, Ms within = kBound);

struct Received {
  std::uint64_t tag = 0;
  bool redelivered = false;
  std::string exchange, routing_key;
  Message message;
};

class AmqpProbe {
 public:
  explicit AmqpProbe(const std::string& url = amqp_url());
  ~AmqpProbe();
  AmqpProbe(const AmqpProbe&) = delete;
  AmqpProbe& operator=(const AmqpProbe&) = delete;

  // A durable queue. `arguments` e.g. {{"x-dead-letter-exchange", "rung.failed"}}.
  void declare(std::string_view queue, const Table& arguments = {});
  void declare_exchange(std::string_view exchange, std::string_view type = "fanout");
  void bind(std::string_view queue, std::string_view exchange, std::string_view routing_key = "");
  bool queue_exists(std::string_view queue);
  bool exchange_exists(std::string_view exchange);
  // Messages ready (not those unacked); nullopt if there is no such queue.
  std::optional<std::uint32_t> depth(std::string_view queue);
  std::optional<std::uint32_t> consumers(std::string_view queue);
  void purge(std::string_view queue);
  void remove(std::string_view queue);
  void remove_exchange(std::string_view exchange);
  // Rung's queues and exchanges of that prefix, those that are there.
  void remove_place(const std::string& prefix);

  // Publishes with `mandatory` and waits for the confirm: true if a queue took it, false if it was returned.
  bool publish(std::string_view exchange, std::string_view routing_key, const Message& message);
  // Publishes all messages, then waits for all confirms. REQUIRES: all are routable.
  void publish_all(std::string_view exchange, std::string_view routing_key,
                   const std::vector<Message>& messages);

  // basic.get without ack: nullopt if the queue is empty.
  std::optional<Received> get(std::string_view queue);
  // The same, but waits up to `within` for a message.
  std::optional<Received> get_within(std::string_view queue, Ms within = kBound);
  // Up to `count` messages, acked at once; fewer if `within` passes.
  std::vector<Received> take(std::string_view queue, std::size_t count, Ms within = kBound);
  void ack(const Received& received);
  void reject(const Received& received, bool requeue = false);  // requeue false: it is dead-lettered

  // Starts a consumer on this connection; next() returns its deliveries.
  void consume(std::string_view queue, int prefetch = 100, bool exclusive = false);
  std::optional<Received> next(Ms within = kBound);

  int major_version() const;  // of RabbitMQ

  // Raw frames, for what the calls above cannot do.
  amqp_connection_state_t raw() { return connection_; }

 private:
  void check(const amqp_rpc_reply_t& reply, const char* what);
  void check(int status, const char* what);
  void reopen_channel();
  std::optional<std::pair<std::uint32_t, std::uint32_t>> inspect(std::string_view queue);
  Message read_content(std::chrono::steady_clock::time_point deadline);
  bool read_frame(amqp_frame_t& frame, std::chrono::steady_clock::time_point deadline);
  void publish_one(std::string_view exchange, std::string_view routing_key, const Message& message);

  int settle();
  Received read_delivery(const amqp_basic_deliver_t& method);

  amqp_connection_state_t connection_ = nullptr;
  std::uint64_t published_ = 0;  // the last delivery tag of ours
  std::set<std::uint64_t> unconfirmed_;
  std::deque<Received> inbox_;  // deliveries that arrived while waiting for a confirm
};

bool eventually_impl(bool (*call)(void*), void* context, Ms within);

template <typename Done>
bool eventually(Done&& done, Ms within) {
  return eventually_impl(
      [](void* c) { return static_cast<bool>((*static_cast<std::remove_reference_t<Done>*>(c))()); },
      const_cast<void*>(static_cast<const void*>(&done)), within);
}

}  // namespace rung::test
