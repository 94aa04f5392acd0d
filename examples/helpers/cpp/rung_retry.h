// Reports to Rung how the messages of a rabbitmq-c consumer end, and acks them. With rung_failure.h. C++17.
//
//   rung_retry::Retry retry(connection, 2, "orders");   // after amqp_login; 2: a channel that nobody else
//   uses while (amqp_consume_message(connection, &envelope, nullptr, 0).reply_type == AMQP_RESPONSE_NORMAL) {
//     retry.handle(envelope, [&] { work(envelope.message); });
//     amqp_destroy_envelope(&envelope);
//   }
//
// Thread: that of the connection.
#pragma once

#include <amqp.h>

#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include "rung_failure.h"

namespace rung_retry {

// The connection is lost. What is unacked comes back.
class ConnectionLost : public std::runtime_error {
 public:
  ConnectionLost() : std::runtime_error("connection to the broker lost") {}
};

inline std::string_view view(amqp_bytes_t bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}
inline amqp_bytes_t bytes(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }

inline amqp_table_t headers_of(const amqp_message_t& message) {
  const bool there = (message.properties._flags & AMQP_BASIC_HEADERS_FLAG) != 0;
  return there ? message.properties.headers : amqp_empty_table;
}

inline amqp_table_entry_t text_entry(std::string_view name, std::string_view value) {
  amqp_table_entry_t entry{};
  entry.key = bytes(name);
  entry.value.kind = AMQP_FIELD_KIND_UTF8;
  entry.value.value.bytes = bytes(value);
  return entry;
}

class Retry {
 public:
  // `channel`: to publish on; it is opened here. `prefix`: broker.prefix of rung.yaml. `pause`: before a
  // message that could not be reported is requeued.
  Retry(amqp_connection_state_t connection, amqp_channel_t channel, std::string queue,
        const std::string& prefix = "rung", std::chrono::milliseconds pause = std::chrono::seconds{1})
      : connection_(connection),
        channel_(channel),
        queue_(std::move(queue)),
        failed_(prefix + ".failed"),
        results_(prefix + ".results"),
        prefix_(prefix),
        pause_(pause) {
    open();
  }

  // Runs the work: it returns: a success; it throws: a failure. Reports that, and acks. Returns the error as
  // reported; "" = none.
  template <typename Work>
  std::string handle(const amqp_envelope_t& envelope, const Work& work) {
    Headers why;
    try {
      work();
    } catch (...) {
      why = failure_headers(queue_, std::current_exception());
    }
    const std::string error = why.empty() ? "" : why["retry-error"];
    if (!why.empty() && !report_failure(envelope, why)) {
      std::this_thread::sleep_for(pause_);
      amqp_basic_nack(connection_, envelope.channel, envelope.delivery_tag, 0,
                      1);  // requeue: nothing is lost
      return error;
    }
    // If this fails: Rung has the row, and takes silence as the queue's settings say.
    if (why.empty()) report_success(headers_of(envelope.message));
    // Last: a crash before it repeats the delivery.
    if (amqp_basic_ack(connection_, envelope.channel, envelope.delivery_tag, 0) != 0) throw ConnectionLost();
    return error;
  }

 private:
  bool report_failure(const amqp_envelope_t& envelope, Headers why) {
    const amqp_message_t& message = envelope.message;
    const amqp_table_t headers = headers_of(message);
    int origin = 0;
    for (int i = 0; i < headers.num_entries; ++i) {
      const std::string_view name = view(headers.entries[i].key);
      if (name == kOriginExchange || name == kOriginKey) ++origin;
    }
    const std::string key(view(envelope.routing_key));
    add_origin(why, {std::string(view(envelope.exchange)), key, origin == 2}, prefix_);
    std::vector<amqp_table_entry_t> entries;
    for (int i = 0; i < headers.num_entries; ++i) {
      const std::string name(view(headers.entries[i].key));
      const bool earlier = name == "retry-never" || name == "retry-after";  // of an earlier failure
      if (!earlier && why.find(name) == why.end()) entries.push_back(headers.entries[i]);
    }
    for (const auto& [name, value] : why) entries.push_back(text_entry(name, value));
    amqp_basic_properties_t properties = message.properties;
    // user-id: the broker refuses one that is not our user. expiration: it would run out in rung.failed.
    properties._flags &= ~static_cast<amqp_flags_t>(AMQP_BASIC_USER_ID_FLAG | AMQP_BASIC_EXPIRATION_FLAG);
    return publish(failed_, key, entries, properties, message.body);
  }

  void report_success(const amqp_table_t& headers) {
    std::vector<amqp_table_entry_t> entries;
    bool ours = false;
    for (int i = 0; i < headers.num_entries; ++i) {
      const std::string_view name = view(headers.entries[i].key);
      ours = ours || name == "retry-id";
      for (const char* kept : {"retry-id", "retry-attempt", "retry-token", "traceparent", "tracestate"})
        if (name == kept) entries.push_back(headers.entries[i]);
    }
    if (!ours) return;
    const std::string by = executor();
    entries.push_back(text_entry("retry-result", "succeeded"));
    entries.push_back(text_entry("retry-executor", by));
    publish(results_, queue_, entries, {}, amqp_empty_bytes);
  }

  // True when the broker has taken it. In a transaction: rabbitmq-c 0.11 cannot wait for a confirm on a
  // connection that consumes, and commit-ok says at least as much.
  bool publish(const std::string& exchange, const std::string& routing_key,
               std::vector<amqp_table_entry_t>& entries, amqp_basic_properties_t properties,
               amqp_bytes_t body) {
    properties._flags |= AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG;
    properties.delivery_mode = 2;
    properties.headers = {static_cast<int>(entries.size()), entries.data()};
    if (amqp_basic_publish(connection_, channel_, bytes(exchange), bytes(routing_key), 0, 0, &properties,
                           body) != 0)
      throw ConnectionLost();
    amqp_tx_commit(connection_, channel_);
    const amqp_rpc_reply_t reply = amqp_get_rpc_reply(connection_);
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return true;
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION || reply.reply.id != AMQP_CHANNEL_CLOSE_METHOD)
      throw ConnectionLost();
    amqp_channel_close_ok_t closed{};  // such as 404: no such exchange
    amqp_send_method(connection_, channel_, AMQP_CHANNEL_CLOSE_OK_METHOD, &closed);
    open();
    return false;
  }

  void open() {
    if (amqp_channel_open(connection_, channel_) == nullptr ||
        amqp_tx_select(connection_, channel_) == nullptr)
      throw ConnectionLost();
  }

  amqp_connection_state_t connection_;
  amqp_channel_t channel_;
  std::string queue_, failed_, results_, prefix_;
  std::chrono::milliseconds pause_;
};

}  // namespace rung_retry
