// Writes acks and requeues of one channel into the connection's buffer, in as few frames as the protocol
// allows. Requeues are nacks, not rejects: since 4.3 RabbitMQ counts only rejects towards a quorum queue's
// delivery limit. Thread: one thread per object.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/rabbitmq/ack_window.h"

namespace rung::rabbit {

class AckWriter {
 public:
  void begin_channel() { window_ = {}; }
  void delivered() { window_.delivered(); }  // tags count up from 1

  // Unknown tags and tags that are already settled are ignored.
  void ack(const std::vector<std::uint64_t>& tags, std::string& out);
  void requeue(const std::vector<std::uint64_t>& tags, std::string& out);
  void requeue_all(std::string& out);  // everything unacked

 private:
  AckWindow window_;
  std::vector<AckFrame> frames_;  // scratch
};

}  // namespace rung::rabbit
