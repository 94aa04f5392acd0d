// A client for C++ consumers on rabbitmq-c (Debian: librabbitmq-dev): a connection, and access to headers.
// Copy it together with the consumer and examples/helpers/cpp. It exits when the connection is lost, and
// expects to be restarted. Thread: one.
#pragma once

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../../helpers/cpp/rung_retry.h"

using rung_retry::bytes, rung_retry::view, rung_retry::headers_of, rung_retry::text_entry;

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

inline std::string message_id_of(const amqp_message_t& message) {
  const bool there = (message.properties._flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0;
  return there ? std::string(view(message.properties.message_id)) : std::string();
}

class Client {
 public:
  Client(std::string url, std::string queue) : url_(std::move(url)), queue_(std::move(queue)) {}

  // Consumes until the connection is lost. `handle` gets each delivery, and settles it with the Retry.
  template <typename Handle>
  void run(const Handle& handle) {
    connect();
    rung_retry::Retry retry(connection_, kChannel + 1, queue_);
    while (true) {
      amqp_envelope_t envelope;
      amqp_maybe_release_buffers(connection_);
      expect(amqp_consume_message(connection_, &envelope, nullptr, 0), "connection lost");
      handle(retry, envelope);
      amqp_destroy_envelope(&envelope);
    }
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
    amqp_basic_qos(connection_, kChannel, 0, 10, 0);
    // This argument attaches a new queue; for an existing queue use a policy (README.md).
    amqp_table_entry_t attach = text_entry("x-dead-letter-exchange", "rung.failed");
    amqp_queue_declare(connection_, kChannel, bytes(queue_), 0, 1, 0, 0, {1, &attach});
    expect(amqp_get_rpc_reply(connection_), "the queue exists with other arguments");
    amqp_basic_consume(connection_, kChannel, bytes(queue_), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    expect(amqp_get_rpc_reply(connection_), "cannot consume");
  }

  const std::string url_, queue_;
  amqp_connection_state_t connection_ = nullptr;
};
