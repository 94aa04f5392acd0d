// usage: rung_helper_worker AMQP-URL QUEUE PREFIX
#include <amqp_tcp_socket.h>

#include <cstdio>

#include "../../../../examples/helpers/cpp/rung_retry.h"

namespace {

class CardDeclined : public rung_retry::Failure {
 public:
  using Failure::Failure;
};

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

std::string header(const amqp_message_t& message, const char* name) {
  const amqp_table_t headers = rung_retry::headers_of(message);
  for (int i = 0; i < headers.num_entries; ++i) {
    const amqp_field_value_t& value = headers.entries[i].value;
    if (rung_retry::view(headers.entries[i].key) != name) continue;
    if (value.kind == AMQP_FIELD_KIND_UTF8) return std::string(rung_retry::view(value.value.bytes));
    return std::to_string(value.kind == AMQP_FIELD_KIND_I32 ? value.value.i32 : value.value.i64);
  }
  return "";
}

std::string http_date(int in_seconds) {
  const std::time_t when = std::time(nullptr) + in_seconds;
  std::array<char, 64> text{};
  return {text.data(),
          std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", std::gmtime(&when))};
}

void call_partner() { throw rung_retry::HttpError("HTTP 503", 503, http_date(3)); }

// As work.py.
void work(const std::string& word, int attempt) {
  if (attempt >= (word == "twice" ? 2 : 1) || word == "ok") return;
  if (word == "never" || word == "flag") throw rung_retry::GiveUp("no such customer");
  if (word == "later") throw rung_retry::RetryLater("in maintenance", "1500ms");
  if (word == "seconds") throw rung_retry::HttpError("HTTP 429", 429, "2");
  if (word == "date") {
    try {
      call_partner();
    } catch (...) {
      std::throw_with_nested(CardDeclined("the partner is busy"));
    }
  }
  std::string text = "Карта отклонена – 4711";
  if (word == "long") {
    text.clear();
    for (int i = 0; i < 100'000; ++i) text += "ü";
  }
  throw CardDeclined(text);
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 4, "usage: rung_helper_worker AMQP-URL QUEUE PREFIX");
  amqp_connection_info info;
  expect(amqp_parse_url(argv[1], &info) == AMQP_STATUS_OK, "invalid URL");
  amqp_connection_state_t connection = amqp_new_connection();
  expect(amqp_socket_open(amqp_tcp_socket_new(connection), info.host, info.port) == 0, "no connection");
  expect(amqp_login(connection, info.vhost, 0, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN, info.user,
                    info.password)
                 .reply_type == AMQP_RESPONSE_NORMAL,
         "login refused");
  amqp_channel_open(connection, 1);
  amqp_basic_qos(connection, 1, 0, 10, 0);
  amqp_basic_consume(connection, 1, amqp_cstring_bytes(argv[2]), amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
  rung_retry::Retry retry(connection, 2, argv[2], argv[3], std::chrono::milliseconds{200});
  while (true) {
    amqp_envelope_t envelope;
    amqp_maybe_release_buffers(connection);
    expect(amqp_consume_message(connection, &envelope, nullptr, 0).reply_type == AMQP_RESPONSE_NORMAL,
           "lost");
    const std::string word(rung_retry::view(envelope.message.body));
    const std::string attempt = header(envelope.message, "retry-attempt");
    std::printf("work %s %d %s\n", word.c_str(), std::atoi(attempt.c_str()),
                header(envelope.message, "traceparent").c_str());
    std::fflush(stdout);
    retry.handle(envelope, [&] { work(word, std::atoi(attempt.c_str())); });
    amqp_destroy_envelope(&envelope);
  }
}
