// Acks and requeues in transit to the consumer's thread. Thread: ack and requeue from any; take from the
// consumer's own.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "plugin/rabbitmq/mailbox.h"

namespace rung::rabbit {

class AckMailbox {
 public:
  void ack(std::vector<DeliveryTag> tags) { acks_.put(std::move(tags)); }
  void requeue(std::vector<DeliveryTag> tags) { requeues_.put(std::move(tags)); }

  struct Taken {
    std::vector<std::uint64_t> acks, requeues;  // delivery tags of this session
    bool any_acks = false;                      // also true if all acks were of old sessions
  };
  // Valid until the next call.
  const Taken& take(const IntakeSession& session) {
    taken_.any_acks = filter(acks_.take(), session, taken_.acks);
    filter(requeues_.take(), session, taken_.requeues);
    return taken_;
  }

 private:
  static bool filter(const std::vector<DeliveryTag>& from, const IntakeSession& session,
                     std::vector<std::uint64_t>& to) {
    to.clear();
    for (const DeliveryTag& tag : from) {
      if (tag.session == session) to.push_back(tag.tag);
    }
    return !from.empty();
  }

  Mailbox<DeliveryTag> acks_, requeues_;
  Taken taken_;  // the thread's own
};

}  // namespace rung::rabbit
