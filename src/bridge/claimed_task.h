// A task that this instance has claimed, until its publish has a result. Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "plugin/broker.h"
#include "src/core/task.h"

namespace rung::bridge {

struct ClaimedTask {
  std::shared_ptr<const Task> task;  // as its claim left it
  std::uint32_t queue = 0;           // of its target, as QueueNames numbers it
  std::size_t bytes = 0;             // of its body, and about what a message takes beside it
  PublishLane lane = PublishLane::main;
  bool copy_may_be_out = false;  // an earlier publish of the attempt has had no answer
};

}  // namespace rung::bridge
