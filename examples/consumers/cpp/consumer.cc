// A consumer with retries by Rung, in C++ with rabbitmq-c (Debian: librabbitmq-dev).
//
// usage: rung_example_consumer [AMQP-URL [QUEUE]]      default: amqp://guest:guest@127.0.0.1:5672/%2f orders
//
// Bodies to try: "ok"; "busy 2" (the service answers from the second retry on); "broken" (no retry ever
// helps); "later" (the service says when to come back).
#include <amqp.h>
#include <amqp_tcp_socket.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr amqp_channel_t kChannel = 1;

std::string_view view(amqp_bytes_t bytes) { return {static_cast<const char*>(bytes.bytes), bytes.len}; }
amqp_bytes_t bytes(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "consumer: %s\n", what);
  std::exit(1);
}

void expect(amqp_rpc_reply_t reply, const char* what) {
  if (reply.reply_type != AMQP_RESPONSE_NORMAL) die(what);
}

const amqp_table_entry_t* find(const amqp_table_t& headers, std::string_view name) {
  for (int i = 0; i < headers.num_entries; ++i) {
    if (view(headers.entries[i].key) == name) return &headers.entries[i];
  }
  return nullptr;
}

std::int64_t number(const amqp_table_t& headers, std::string_view name) {
  const amqp_table_entry_t* entry = find(headers, name);
  if (entry == nullptr) return 0;
  return entry->value.kind == AMQP_FIELD_KIND_I32 ? entry->value.value.i32 : entry->value.value.i64;
}

std::string text(const amqp_table_t& headers, std::string_view name) {
  const amqp_table_entry_t* entry = find(headers, name);
  return entry == nullptr ? "" : std::string(view(entry->value.value.bytes));
}

amqp_table_entry_t text_entry(std::string_view name, std::string_view value) {
  amqp_table_entry_t entry{};
  entry.key = bytes(name);
  entry.value.kind = AMQP_FIELD_KIND_UTF8;
  entry.value.value.bytes = bytes(value);
  return entry;
}

// What became of one delivery.
struct Outcome {
  enum { kDone, kBusy, kFailed } what = kDone;      // kBusy: a failure that needs no words
  std::map<std::string, std::string> headers = {};  // kFailed: why, and when to try again (retry-*)
};

// Your work. attempt: 0 = first delivery, 1 = first retry ...
Outcome work(const std::string& body, std::int64_t attempt) {
  if (body.starts_with("busy ") && attempt < std::stoi(body.substr(5))) return {Outcome::kBusy};
  if (body == "later" && attempt == 0) {
    return {Outcome::kFailed, {{"retry-error", "the service is in maintenance"}, {"retry-after", "2s"}}};
  }
  if (body == "broken") return {Outcome::kFailed, {{"retry-error", "no such customer"}}};
  return {};
}

class Consumer {
 public:
  Consumer(std::string url, std::string queue) : url_(std::move(url)), queue_(std::move(queue)) {}

  void run() {
    connect();
    while (true) {
      amqp_envelope_t envelope;
      amqp_maybe_release_buffers(connection_);
      expect(amqp_consume_message(connection_, &envelope, nullptr, 0), "the connection is gone");
      handle(envelope);
      // Publish and ack are one transaction: the message is never in neither place.
      amqp_tx_commit(connection_, kChannel);
      expect(amqp_get_rpc_reply(connection_), "the broker refused");
      amqp_destroy_envelope(&envelope);
    }
  }

 private:
  void connect() {
    amqp_connection_info info;
    std::string scratch = url_;  // amqp_parse_url writes into it
    if (amqp_parse_url(scratch.data(), &info) != AMQP_STATUS_OK) die("not an AMQP URL");
    connection_ = amqp_new_connection();
    if (amqp_socket_open(amqp_tcp_socket_new(connection_), info.host, info.port) != 0) die("no broker there");
    expect(amqp_login(connection_, info.vhost, 0, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN,
                      info.user, info.password),
           "login refused");
    amqp_channel_open(connection_, kChannel);
    amqp_tx_select(connection_, kChannel);
    amqp_basic_qos(connection_, kChannel, 0, 10, 0);
    // A new queue attaches itself by this argument; one that exists, by a policy (README.md).
    amqp_table_entry_t attach = text_entry("x-dead-letter-exchange", "rung.failed");
    amqp_queue_declare(connection_, kChannel, bytes(queue_), 0, 1, 0, 0, {1, &attach});
    expect(amqp_get_rpc_reply(connection_), "the queue is there with other arguments");
    amqp_basic_consume(connection_, kChannel, bytes(queue_), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    expect(amqp_get_rpc_reply(connection_), "cannot consume");
  }

  void handle(const amqp_envelope_t& envelope) {
    const amqp_basic_properties_t& properties = envelope.message.properties;
    const bool has_headers = (properties._flags & AMQP_BASIC_HEADERS_FLAG) != 0;
    const amqp_table_t headers = has_headers ? properties.headers : amqp_empty_table;
    const std::int64_t attempt = number(headers, "retry-attempt");
    // A crash, anybody's, can repeat a delivery: the key that stays the same says whether the work is done
    // already.
    const bool has_id = (properties._flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0;
    const std::string key = has_id ? std::string(view(properties.message_id)) : text(headers, "retry-id");
    Outcome outcome;
    if (key.empty() || !done_.contains(key))
      outcome = work(std::string(view(envelope.message.body)), attempt);
    static constexpr const char* kWords[] = {"done", "rejected", "failed"};
    std::printf("%s: attempt %lld %s\n", key.c_str(), static_cast<long long>(attempt), kWords[outcome.what]);
    std::fflush(stdout);

    if (outcome.what == Outcome::kBusy) {
      // 1. Reject and forget: RabbitMQ dead-letters the message to rung.failed.
      amqp_basic_reject(connection_, kChannel, envelope.delivery_tag, 0);
      return;
    }
    if (outcome.what == Outcome::kFailed) {
      // 2. Publish it to rung.failed with the reason. All its headers go along: retry-id and retry-attempt
      // say which
      //    climb it belongs to.
      outcome.headers["retry-queue"] = queue_;
      forward(envelope.message, headers, outcome.headers);
    } else {
      done_.insert(key);
      // 3. Report that a retry succeeded. Left out, silence means success after `presumed_after`.
      if (attempt > 0) report_success(headers);
    }
    amqp_basic_ack(connection_, kChannel, envelope.delivery_tag, 0);
  }

  void forward(const amqp_message_t& message, const amqp_table_t& headers,
               const std::map<std::string, std::string>& added) {
    std::vector<amqp_table_entry_t> entries;
    for (int i = 0; i < headers.num_entries; ++i) {
      if (!added.contains(std::string(view(headers.entries[i].key)))) entries.push_back(headers.entries[i]);
    }
    for (const auto& [name, value] : added) entries.push_back(text_entry(name, value));
    amqp_basic_properties_t properties = message.properties;
    // user-id is the publisher's: the broker would refuse ours under that name.
    properties._flags = (properties._flags | AMQP_BASIC_HEADERS_FLAG) & ~AMQP_BASIC_USER_ID_FLAG;
    publish("rung.failed", entries, properties, message.body);
  }

  void report_success(const amqp_table_t& headers) {
    std::vector<amqp_table_entry_t> entries = {*find(headers, "retry-id"), *find(headers, "retry-attempt"),
                                               text_entry("retry-result", "succeeded")};
    amqp_basic_properties_t properties{};
    properties._flags = AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG;
    properties.delivery_mode = 2;
    publish("rung.results", entries, properties, amqp_empty_bytes);
  }

  void publish(std::string_view exchange, std::vector<amqp_table_entry_t>& entries,
               amqp_basic_properties_t properties, amqp_bytes_t body) {
    properties.headers = {static_cast<int>(entries.size()), entries.data()};
    if (amqp_basic_publish(connection_, kChannel, bytes(exchange), bytes(queue_), 0, 0, &properties, body) !=
        0) {
      die("the connection is gone");
    }
  }

  std::string url_, queue_;
  amqp_connection_state_t connection_ = nullptr;
  std::set<std::string>
      done_;  // stands for a table with a unique key, written in the same transaction as the work
};

}  // namespace

int main(int argc, char** argv) {
  Consumer(argc > 1 ? argv[1] : "amqp://guest:guest@127.0.0.1:5672/%2f", argc > 2 ? argv[2] : "orders").run();
}
