// A consumer with retries by Rung, in C++ with rabbitmq-c (Debian: librabbitmq-dev).
//
// usage: rung_example_consumer [AMQP-URL [QUEUE]]      default: amqp://guest:guest@127.0.0.1:5672/%2f orders
//
// Bodies to try: "ok"; "busy 2" (succeeds from the second retry on); "broken" (never succeeds); "later"
// (the service sets the delay before the retry).
#include <set>

#include "client.h"

namespace {

// Your work: it returns, or throws. attempt: 0 = first delivery, 1 = first retry ...
void work(const std::string& body, std::int64_t attempt) {
  if (body.starts_with("busy ") && attempt < std::stoi(body.substr(5)))
    throw std::runtime_error("the warehouse is busy");
  if (body == "later" && attempt == 0) throw rung_retry::RetryLater("the service is in maintenance", "2s");
  if (body == "broken") throw rung_retry::Failure("no such customer");
}

}  // namespace

int main(int argc, char** argv) {
  std::set<std::string>
      done;  // stands for a table with a unique key, written in the same transaction as the work
  Client client(argc > 1 ? argv[1] : "amqp://guest:guest@127.0.0.1:5672/%2f", argc > 2 ? argv[2] : "orders");
  client.run([&](rung_retry::Retry& retry, const amqp_envelope_t& envelope) {
    const amqp_table_t headers = headers_of(envelope.message);
    const std::int64_t attempt = number(headers, "retry-attempt");
    // A crash can repeat a delivery with the same key: the key tells whether the work is already done.
    const std::string id = message_id_of(envelope.message);
    const std::string key = id.empty() ? text(headers, "retry-id") : id;
    // Reports an exception to rung.failed, or the success of a retry to rung.results; then acks.
    const std::string error = retry.handle(envelope, [&] {
      if (!key.empty() && done.count(key) != 0) return;
      work(std::string(view(envelope.message.body)), attempt);
      done.insert(key);
    });
    std::printf("%s: attempt %lld %s\n", key.c_str(), static_cast<long long>(attempt),
                error.empty() ? "done" : error.c_str());
    std::fflush(stdout);
  });
}
