// A task that this instance has claimed, until its publish has a result. Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "plugin/broker.h"
#include "src/core/task.h"

namespace rung::bridge {

struct ClaimedTask {
  std::shared_ptr<const Task> task;  // as the claim left it
  std::uint32_t queue = 0;           // the target's number in QueueNames
  std::size_t bytes = 0;             // its body plus approximate message overhead
  PublishLane lane = PublishLane::main;
  bool copy_may_be_out = false;  // an earlier publish of the attempt got no answer
};

}  // namespace rung::bridge
