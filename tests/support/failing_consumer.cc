#include "tests/support/failing_consumer.h"

#include <utility>

#include "tests/support/sidecar.h"

namespace rung::test {

FailingConsumer::FailingConsumer(std::string queue, std::string failed, How how)
    : queue_(std::move(queue)), failed_(std::move(failed)), how_(how), thread_([this] { run(); }) {}

FailingConsumer::~FailingConsumer() {
  stop_ = true;
  thread_.join();
}

void FailingConsumer::run() {
  while (!stop_) {
    try {
      serve();
    } catch (const std::exception&) {  // the broker is away
      std::this_thread::sleep_for(Ms{50});
    }
  }
}

void FailingConsumer::serve() {
  AmqpProbe probe;
  probe.consume(queue_, 50);
  while (!stop_) {
    auto received = probe.next(Ms{100});
    if (!received) continue;
    Seen seen{
        received->message.body, retry_id(*received),
        has_header(received->message, "retry-attempt") ? int_header(received->message, "retry-attempt") : 0,
        wall_ms()};
    if (seen.attempt > 0) ++count_;
    {
      const std::lock_guard lock(mutex_);
      seen_.push_back(std::move(seen));
    }
    if (how_ == How::reject) {
      probe.reject(*received);
    } else {
      probe.publish(failed_, "", received->message);
      probe.ack(*received);
    }
  }
}

std::vector<FailingConsumer::Seen> FailingConsumer::seen() const {
  const std::lock_guard lock(mutex_);
  return seen_;
}

}  // namespace rung::test
