// Maps queue names to small numbers, so that a due time in memory has four bytes instead of a name. Bounded,
// because names come from messages: all names after the first kMost share one number, and thus one window and
// one catch-up rate. Queues of the config have numbers of their own in any case. Thread: the loop's.
#pragma once

#include <cstddef>
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

  // The config names it. Call before messages arrive, and after each reload.
  void reserve(std::string_view name) {
    if (numbers_.contains(name)) return;
    add(name);
    ++reserved_;
  }

  std::uint32_t number(std::string_view name) {
    if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
    if (names_.size() > kMost + reserved_) return kShared;
    return add(name);
  }
  // "" for kShared.
  const std::string& name(std::uint32_t number) const { return names_[number]; }

  io::DueItem item(const DueEntry& row) { return {row.id, row.at, row.shard, number(row.queue)}; }
  io::DueItem item(const Task& task, EpochMs at) { return {task.id, at, task.shard, number(task.queue)}; }

  std::size_t size() const { return names_.size(); }

 private:
  std::uint32_t add(std::string_view name) {
    names_.emplace_back(name);  // a deque: keys point into it, and its elements never move
    const auto number = static_cast<std::uint32_t>(names_.size() - 1);
    numbers_.emplace(names_.back(), number);
    return number;
  }

  std::deque<std::string> names_{std::string{}};
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::size_t reserved_ = 0;
};

}  // namespace rung::bridge
