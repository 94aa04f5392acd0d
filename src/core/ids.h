// Ids of tasks: 63 bits, made here and not by the database, so that a write that is repeated after a lost
// answer is the same write. Ordered by time, so that a new row lands at the end of the table.
//   41 bits  ms since 2025-01-01 UTC (until 2094)
//   10 bits  the node's number (rung_nodes.id) mod 1024
//   12 bits  a counter within the ms
// Thread: IdSource is for one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/core/time.h"

namespace rung {

struct TaskId {
  std::int64_t value = 0;
  auto operator<=>(const TaskId&) const = default;
  std::string str() const { return std::to_string(value); }
  // Decimal, as `retry-id` and the views show it. None for anything else.
  static std::optional<TaskId> parse(std::string_view text);
};

inline constexpr std::int64_t kIdEpochMs = 1735689600000;  // 2025-01-01T00:00:00Z

class IdSource {
 public:
  explicit IdSource(int node) : node_(node & 1023) {}
  // Strictly ascending, also where the clock steps back or more than 4096 are asked for in one ms.
  TaskId next(EpochMs now);
  // The smallest id that can have been made at `t`: for ranges over time.
  static TaskId floor(EpochMs t);
  // To the ms: when it was made. The opposite of floor().
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
