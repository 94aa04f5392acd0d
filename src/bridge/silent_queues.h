// Reports the target queues that do not answer publishes: a log line when a queue begins and ends, and the
// problem "silent_queues". Thread: the loop's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/bridge/health.h"
#include "src/bridge/queue_names.h"
#include "src/bridge/targets.h"

namespace rung::bridge {

class SilentQueues {
 public:
  SilentQueues(Health& health, const QueueNames& names) : health_(health), names_(names) {}

  // All that are silent now.
  void set(const std::vector<Targets::Silent>& silent, BootMs now);

 private:
  std::string name_of(std::uint32_t queue) const;

  Health& health_;
  const QueueNames& names_;
  std::map<std::uint32_t, BootMs> since_;  // by queue; at most QueueNames::kMost
};

}  // namespace rung::bridge
