// Gathers acks and sends them in one batch. Thread: the loop's.
#pragma once

#include <utility>
#include <vector>

#include "plugin/broker.h"

namespace rung::bridge {

class Acks {
 public:
  explicit Acks(Broker& broker) : broker_(broker) {}
  void add(DeliveryTag tag) { tags_.push_back(tag); }
  void flush() {
    if (tags_.empty()) return;
    std::vector<DeliveryTag> tags;
    tags.swap(tags_);
    broker_.ack(std::move(tags));
  }

 private:
  Broker& broker_;
  std::vector<DeliveryTag> tags_;
};

}  // namespace rung::bridge
