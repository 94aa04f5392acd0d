// A consumer with retries by Rung, in C++ with rabbitmq-c (Debian: librabbitmq-dev).
//
// usage: rung_example_consumer [AMQP-URL [QUEUE]]      default: amqp://guest:guest@127.0.0.1:5672/%2f orders
//
// Bodies to try: "ok"; "busy 2" (succeeds from the second retry on); "broken" (never succeeds); "later"
// (the service sets the delay before the retry).
#include <set>

#include "client.h"

namespace {

// The outcome of one delivery.
struct Outcome {
  enum { kDone, kBusy, kFailed } what = kDone;  // kBusy: a failure without an error to report
  Added headers = {};                           // kFailed: the error, and when to retry (retry-*)
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
  Consumer(std::string url, std::string queue) : client_(std::move(url), std::move(queue)) {}

  void run() {
    client_.run([this](const amqp_envelope_t& envelope) { handle(envelope); });
  }

 private:
  void handle(const amqp_envelope_t& envelope) {
    const amqp_table_t headers = headers_of(envelope.message);
    const std::int64_t attempt = number(headers, "retry-attempt");
    // A crash can repeat a delivery with the same key: the key tells whether the work is already done.
    const std::string id = message_id_of(envelope.message);
    const std::string key = id.empty() ? text(headers, "retry-id") : id;
    Outcome outcome;
    if (key.empty() || !done_.contains(key))
      outcome = work(std::string(view(envelope.message.body)), attempt);
    static constexpr const char* kWords[] = {"done", "rejected", "failed"};
    std::printf("%s: attempt %lld %s\n", key.c_str(), static_cast<long long>(attempt), kWords[outcome.what]);
    std::fflush(stdout);

    if (outcome.what == Outcome::kBusy) {
      // 1. Reject: RabbitMQ dead-letters the message to rung.failed.
      client_.reject(envelope);
      return;
    }
    if (outcome.what == Outcome::kFailed) {
      // 2. Publish it to rung.failed with the reason.
      client_.forward_failure(envelope.message, outcome.headers);
    } else {
      done_.insert(key);
      // 3. Report that a retry succeeded. Without the report, silence means success after `presumed_after`.
      if (attempt > 0) client_.report(headers, {{"retry-result", "succeeded"}});
    }
    client_.ack(envelope);
  }

  Client client_;
  std::set<std::string>
      done_;  // stands for a table with a unique key, written in the same transaction as the work
};

}  // namespace

int main(int argc, char** argv) {
  Consumer(argc > 1 ? argv[1] : "amqp://guest:guest@127.0.0.1:5672/%2f", argc > 2 ? argv[2] : "orders").run();
}
