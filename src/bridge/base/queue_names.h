// Maps queue names to small numbers, so that a due time in memory has four bytes instead of a name. Bounded,
// because names come from messages: of the names that the config does not have, kMost have a number. One that
// nothing in memory needs any more is given to another name (Horizon::tidy_names()), so that no two names
// ever share one. While all are needed, a further name gets none: its tasks wait in the database, where the
// sweep finds them. Thread: the loop's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/core/base/result.h"
#include "src/io/due_heap.h"
#include "src/store/tasks.h"

namespace rung::bridge {

class QueueNames {
 public:
  static constexpr std::uint32_t kMost = 20'000;
  static constexpr std::uint32_t kNone = 0;

  // The config names it: its number is never given away. Call before messages arrive, and after each reload.
  void reserve(std::string_view name) {
    const std::uint32_t number = find(name) != kNone ? find(name) : add(name);
    if (listed_[number]) return;
    listed_[number] = true;
    --others_;
  }

  // kNone: no number is free.
  std::uint32_t number(std::string_view name) {
    if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
    if (is_full()) return kNone;
    return add(name);
  }
  // kNone: it has none.
  std::uint32_t find(std::string_view name) const {
    const auto known = numbers_.find(name);
    return known == numbers_.end() ? kNone : known->second;
  }
  // "" for kNone.
  const std::string& name(std::uint32_t number) const { return names_[number]; }

  io::DueItem item(const DueEntry& row) { return {row.id, row.at, row.shard, number(row.queue)}; }
  io::DueItem item(const Task& task, EpochMs at) { return {task.id, at, task.shard, number(task.queue)}; }

  bool is_full() const { return others_ >= kMost; }
  // So many have come since the last free_unused() that it is worth its time.
  bool needs_tidying() const { return is_full() || others_ >= tidy_at_; }
  std::size_t size() const { return names_.size(); }  // every number is below
  std::size_t others() const { return others_; }      // names that the config does not have
  // Takes the numbers that `used` does not have away from their names.
  void free_unused(const std::vector<bool>& used,
                   const std::function<void(std::uint32_t number, const std::string& name)>& freed) {
    RUNG_REQUIRE(used.size() == names_.size());
    for (std::uint32_t number = 1; number < names_.size(); ++number) {
      const bool is_free = names_[number].empty();
      if (is_free || listed_[number] || used[number]) continue;
      freed(number, names_[number]);
      numbers_.erase(names_[number]);
      names_[number].clear();
      free_.push_back(number);
      --others_;
    }
    tidy_at_ = others_ + kMost / 4;
  }

 private:
  std::uint32_t add(std::string_view name) {
    ++others_;
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(names_.size()));
      names_.emplace_back();
      listed_.push_back(false);
    }
    const std::uint32_t number = free_.front();
    RUNG_REQUIRE(number != kNone && names_[number].empty());
    free_.pop_front();
    names_[number] = name;  // a deque: keys point into it, and its elements never move
    numbers_.emplace(names_[number], number);
    return number;
  }

  std::deque<std::string> names_{std::string{}};
  std::vector<bool> listed_{true};  // by number
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
  std::deque<std::uint32_t> free_;
  std::size_t others_ = 0;
  std::size_t tidy_at_ = kMost / 4;
};

}  // namespace rung::bridge
