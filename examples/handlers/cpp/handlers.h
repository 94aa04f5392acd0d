// Functions for messages by their tag (AMQP's property `type`): the registry, and the consumer that calls
// them.
//
//   Handlers handlers;
//   handlers.on("order.close", [](const Job& job) { ... });     // what it throws is reported, with its stack
//   handlers.run("amqp://guest:guest@127.0.0.1:5672/%2f", "orders.close");
//
// Thread: one, which calls the functions.
#pragma once

#include <functional>
#include <map>
#include <stdexcept>

#include "../../consumers/cpp/client.h"

struct Job {
  std::string tag, body, message_id, retry_id;
  std::int64_t attempt = 0;  // Rung's count of its deliveries; 0 = not a delivery from Rung
  // The same for repeated deliveries: a unique key for your work.
  const std::string& key() const { return message_id.empty() ? retry_id : message_id; }
};

// Failure: a failure with its stack. Never: Rung parks the task at once. Later("in maintenance", "30s"):
// retries after that.
using Failure = rung_retry::Failure;
using Never = rung_retry::GiveUp;
using Later = rung_retry::RetryLater;

class Handlers {
 public:
  using Function = std::function<void(const Job&)>;

  void on(const std::string& tag, Function function) {
    if (!by_tag_.emplace(tag, std::move(function)).second) throw std::logic_error("two handlers for " + tag);
  }

  // Consumes until the connection is lost.
  void run(const std::string& url, const std::string& queue) {
    Client client(url, queue);
    client.run([&](rung_retry::Retry& retry, const amqp_envelope_t& envelope) { handle(retry, envelope); });
  }

 private:
  void handle(rung_retry::Retry& retry, const amqp_envelope_t& envelope) const {
    const amqp_message_t& message = envelope.message;
    const amqp_table_t headers = headers_of(message);
    const bool tagged = (message.properties._flags & AMQP_BASIC_TYPE_FLAG) != 0;
    const Job job{tagged ? std::string(view(message.properties.type)) : "", std::string(view(message.body)),
                  message_id_of(message), text(headers, "retry-id"), number(headers, "retry-attempt")};
    // Reports how it ends, and acks.
    const std::string error = retry.handle(envelope, [&] {
      const auto function = by_tag_.find(job.tag);
      if (function == by_tag_.end()) throw Failure("no handler for tag '" + job.tag + "'");
      function->second(job);
    });
    if (error.empty()) return;
    std::printf("%s %s: attempt %lld failed: %s\n", job.tag.c_str(), job.key().c_str(),
                static_cast<long long>(job.attempt), error.c_str());
    std::fflush(stdout);
  }

  std::map<std::string, Function> by_tag_;
};
