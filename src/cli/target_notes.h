// Notes on settings of a target queue with which the broker takes a retry that no consumer will get, for rung
// attach, rung attached and rung doctor. Thread: pure functions.
#pragma once

#include <string>
#include <vector>

#include "plugin/rabbitmq/management.h"

namespace rung::cli {

struct TargetNote {
  std::string name;  // overflow, length, ttl, expires, auto_delete or durable: for scripts
  std::string what;
  std::string fix;
};

std::vector<TargetNote> target_notes(const rabbit::QueueFacts& facts,
                                     const std::vector<rabbit::Policy>& policies);

}  // namespace rung::cli
