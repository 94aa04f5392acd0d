// Maps queue names to small numbers, so that a due time in memory has four bytes instead of a name. Bounded,
// because names come from messages: all names after the first kMost share one number, and thus one window and
// one catch-up rate. Thread: the loop's.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "src/io/due_heap.h"
#include "src/store/tasks.h"

namespace rung::bridge {

class QueueNames {
 public:
  static constexpr std::uint32_t kMost = 20'000;
  static constexpr std::uint32_t kShared = 0;  // of the names after kMost

  std::uint32_t number(std::string_view name) {
    if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
    if (names_.size() > kMost) return kShared;
    names_.emplace_back(name);  // a deque: keys point into it, and its elements never move
    const auto number = static_cast<std::uint32_t>(names_.size() - 1);
    numbers_.emplace(names_.back(), number);
    return number;
  }
  // "" for kShared.
  const std::string& name(std::uint32_t number) const { return names_[number]; }

  io::DueItem item(const DueEntry& row) { return {row.id, row.at, row.shard, number(row.queue)}; }
  io::DueItem item(const Task& task, EpochMs at) { return {task.id, at, task.shard, number(task.queue)}; }

 private:
  std::deque<std::string> names_{std::string{}};
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

}  // namespace rung::bridge
