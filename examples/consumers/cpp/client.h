// A client for C++ consumers on rabbitmq-c (Debian: librabbitmq-dev): a transactional connection, and access
// to headers. Copy it together with the consumer. It exits when the connection is lost, and expects to be
// restarted. Thread: one.
#pragma once

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

inline std::string_view view(amqp_bytes_t bytes) {
  return {static_cast<const char*>(bytes.bytes), bytes.len};
}
inline amqp_bytes_t bytes(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }

[[noreturn]] inline void die(const char* what) {
  std::fprintf(stderr, "consumer: %s\n", what);
  std::exit(1);
}

inline void expect(amqp_rpc_reply_t reply, const char* what) {
  if (reply.reply_type != AMQP_RESPONSE_NORMAL) die(what);
}

inline const amqp_table_entry_t* find(const amqp_table_t& headers, std::string_view name) {
  for (int i = 0; i < headers.num_entries; ++i) {
    if (view(headers.entries[i].key) == name) return &headers.entries[i];
  }
  return nullptr;
}

inline std::int64_t number(const amqp_table_t& headers, std::string_view name) {
  const amqp_table_entry_t* entry = find(headers, name);
  if (entry == nullptr) return 0;
  return entry->value.kind == AMQP_FIELD_KIND_I32 ? entry->value.value.i32 : entry->value.value.i64;
}

inline std::string text(const amqp_table_t& headers, std::string_view name) {
  const amqp_table_entry_t* entry = find(headers, name);
  return entry == nullptr ? "" : std::string(view(entry->value.value.bytes));
}

inline amqp_table_entry_t text_entry(std::string_view name, std::string_view value) {
  amqp_table_entry_t entry{};
  entry.key = bytes(name);
  entry.value.kind = AMQP_FIELD_KIND_UTF8;
  entry.value.value.bytes = bytes(value);
  return entry;
}

inline amqp_table_t headers_of(const amqp_message_t& message) {
  const bool there = (message.properties._flags & AMQP_BASIC_HEADERS_FLAG) != 0;
  return there ? message.properties.headers : amqp_empty_table;
}

inline std::string message_id_of(const amqp_message_t& message) {
  const bool there = (message.properties._flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0;
  return there ? std::string(view(message.properties.message_id)) : std::string();
}

using Added = std::map<std::string, std::string>;  // headers

class Client {
 public:
  Client(std::string url, std::string queue) : url_(std::move(url)), queue_(std::move(queue)) {}

  // Consumes until the connection is lost. `handle` acks or rejects each delivery, in one transaction with
  // what it publishes: so the message cannot be lost in between.
  template <typename Handle>
  void run(const Handle& handle) {
    connect();
    while (true) {
      amqp_envelope_t envelope;
      amqp_maybe_release_buffers(connection_);
      expect(amqp_consume_message(connection_, &envelope, nullptr, 0), "connection lost");
      handle(envelope);
      amqp_tx_commit(connection_, kChannel);
      expect(amqp_get_rpc_reply(connection_), "the broker rejected the transaction");
      amqp_destroy_envelope(&envelope);
    }
  }

  void ack(const amqp_envelope_t& envelope) {
    amqp_basic_ack(connection_, kChannel, envelope.delivery_tag, 0);
  }
  void reject(const amqp_envelope_t& envelope) {
    amqp_basic_reject(connection_, kChannel, envelope.delivery_tag, 0);
  }

  // Publishes the message to rung.failed, with the error in `added`. Forwards all headers: retry-id and
  // retry-attempt identify the task.
  void forward_failure(const amqp_message_t& message, Added added) {
    added["retry-queue"] = queue_;
    const amqp_table_t headers = headers_of(message);
    std::vector<amqp_table_entry_t> entries;
    for (int i = 0; i < headers.num_entries; ++i) {
      if (!added.contains(std::string(view(headers.entries[i].key)))) entries.push_back(headers.entries[i]);
    }
    for (const auto& [name, value] : added) entries.push_back(text_entry(name, value));
    amqp_basic_properties_t properties = message.properties;
    // user-id: the broker rejects one that is not our user.
    properties._flags = (properties._flags | AMQP_BASIC_HEADERS_FLAG) & ~AMQP_BASIC_USER_ID_FLAG;
    publish("rung.failed", entries, properties, message.body);
  }

  // Reports the result of a delivery from Rung to rung.results: `added` has retry-result.
  void report(const amqp_table_t& headers, const Added& added) {
    std::vector<amqp_table_entry_t> entries;
    for (const char* name : {"retry-id", "retry-attempt", "retry-token"}) {  // as the delivery had them
      if (const auto* entry = find(headers, name)) entries.push_back(*entry);
    }
    for (const auto& [name, value] : added) entries.push_back(text_entry(name, value));
    amqp_basic_properties_t properties{};
    properties._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG;
    properties.delivery_mode = 2;
    publish("rung.results", entries, properties, amqp_empty_bytes);
  }

 private:
  static constexpr amqp_channel_t kChannel = 1;

  void connect() {
    amqp_connection_info info;
    std::string scratch = url_;  // amqp_parse_url writes into it
    if (amqp_parse_url(scratch.data(), &info) != AMQP_STATUS_OK) die("invalid AMQP URL");
    connection_ = amqp_new_connection();
    if (amqp_socket_open(amqp_tcp_socket_new(connection_), info.host, info.port) != 0)
      die("cannot connect to the broker");
    expect(amqp_login(connection_, info.vhost, 0, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN,
                      info.user, info.password),
           "login refused");
    amqp_channel_open(connection_, kChannel);
    amqp_tx_select(connection_, kChannel);
    amqp_basic_qos(connection_, kChannel, 0, 10, 0);
    // This argument attaches a new queue; for an existing queue use a policy (README.md).
    amqp_table_entry_t attach = text_entry("x-dead-letter-exchange", "rung.failed");
    amqp_queue_declare(connection_, kChannel, bytes(queue_), 0, 1, 0, 0, {1, &attach});
    expect(amqp_get_rpc_reply(connection_), "the queue exists with other arguments");
    amqp_basic_consume(connection_, kChannel, bytes(queue_), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    expect(amqp_get_rpc_reply(connection_), "cannot consume");
  }

  void publish(std::string_view exchange, std::vector<amqp_table_entry_t>& entries,
               amqp_basic_properties_t properties, amqp_bytes_t body) {
    properties.headers = {static_cast<int>(entries.size()), entries.data()};
    if (amqp_basic_publish(connection_, kChannel, bytes(exchange), bytes(queue_), 0, 0, &properties, body) !=
        0)
      die("connection lost");
  }

  const std::string url_, queue_;
  amqp_connection_state_t connection_ = nullptr;
};
