// Task ids: 63 bits, made here and not by the database, so that repeating a write after a lost answer is
// idempotent. Ordered by time, so that a new row goes to the end of the table.
//   41 bits  ms since 2025-01-01 UTC (until 2094)
//   10 bits  the node's number (rung_nodes.id) mod 1024
//   12 bits  a counter within the ms
// Thread: an IdSource is for one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/base/time.h"
#include "src/core/base/words.h"

namespace rung {

struct TaskId {
  std::int64_t value = 0;
  auto operator<=>(const TaskId&) const = default;
  std::string str() const { return std::to_string(value); }
  // Decimal, as `retry-id` and the views show it. None for anything else.
  static std::optional<TaskId> parse(std::string_view text) {
    const auto number = number_from<std::int64_t>(text);
    return number && *number > 0 ? std::optional(TaskId{*number}) : std::nullopt;
  }
};

inline constexpr std::int64_t kIdEpochMs = 1735689600000;  // 2025-01-01T00:00:00Z

class IdSource {
 public:
  explicit IdSource(int node) : node_(node & 1023) {}
  // Strictly ascending, even if the clock steps back or more than 4096 ids are taken in one ms.
  TaskId next(EpochMs now) {
    last_ = std::max(last_ + 1, std::max<std::int64_t>(now.ms - kIdEpochMs, 0) << 12);
    const std::int64_t ms = last_ >> 12, counter = last_ & 4095;
    return {(ms << 22) | (static_cast<std::int64_t>(node_) << 12) | counter};
  }
  // The smallest id that can be made at `t`: for ranges of time.
  static TaskId floor(EpochMs t) { return {std::max<std::int64_t>(t.ms - kIdEpochMs, 0) << 22}; }
  // When the id was made, to the ms. The inverse of floor().
  static EpochMs made_at(TaskId id) { return {(id.value >> 22) + kIdEpochMs}; }

 private:
  const int node_;
  std::int64_t last_ = 0;  // (ms << 12) | counter
};

}  // namespace rung

template <>
struct std::hash<rung::TaskId> {
  std::size_t operator()(const rung::TaskId& id) const noexcept {
    return static_cast<std::size_t>(static_cast<std::uint64_t>(id.value) * 0x9E3779B97F4A7C15ULL);
  }
};
