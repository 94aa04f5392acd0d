// The publishes on their way to the broker, each with a callback for its result.
// Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "plugin/broker.h"
#include "src/core/base/clock.h"

namespace rung::bridge {

class Outbox {
 public:
  using Done = std::function<void(const PublishResult&)>;

  Outbox(Broker& broker, const Clock& clock) : broker_(broker), clock_(clock) {}

  // Adds to the batch that flush() passes to the broker. Sets the token.
  void send(Outgoing message, Done done) {
    if (done_.empty()) heard_at_ = clock_.boot();
    message.token = ++last_token_;
    done_.emplace(message.token, std::move(done));
    batch_.push_back(std::move(message));
  }
  void flush() {
    if (batch_.empty()) return;
    std::vector<Outgoing> batch;
    batch.swap(batch_);
    broker_.publish(std::move(batch));
  }
  void arrived(const std::vector<PublishResult>& results) {
    heard_at_ = clock_.boot();
    for (const PublishResult& result : results) {
      const auto node = done_.extract(result.token);
      if (!node.empty()) node.mapped()(result);
    }
  }
  std::size_t under_way() const { return done_.size(); }
  // When the last answer arrived, or when the first of those under way was sent.
  BootMs heard_at() const { return heard_at_; }
  void begin_silence() { heard_at_ = clock_.boot(); }

 private:
  Broker& broker_;
  const Clock& clock_;
  std::uint64_t last_token_ = 0;
  BootMs heard_at_{0};
  std::vector<Outgoing> batch_;
  std::unordered_map<std::uint64_t, Done> done_;
};

}  // namespace rung::bridge
