// What the next pass of retention looks at: all finished tasks from the beginning, the partitions, what is
// left in those that stay. Thread: the loop's.
#pragma once

#include <optional>

#include "src/bridge/retention_pass.h"
#include "src/core/time.h"

namespace rung::bridge {

class RetentionSchedule {
 public:
  // All of it with the next pass: another retention.
  void look_at_all() { walk_at_ = look_at_ = sweep_at_ = {0}; }
  // The same, and nothing is known of the tables: the duty was another instance's.
  void begin_anew();

  // `last`: the pass before, from whose place the next one goes on.
  RetentionPass next(const RetentionPass& last, std::optional<Ms> keep, EpochMs now, BootMs boot);
  // Tasks went: their partition may be empty.
  void tasks_went(BootMs now);
  void ended(const RetentionPass& pass, BootMs now);
  // It was cut short by an error. How long to rest.
  Ms failed(BootMs now);

 private:
  static constexpr Ms kFirstBusy{std::chrono::minutes{5}};

  // 0 = with the next pass.
  BootMs walk_at_{0}, look_at_{0}, sweep_at_{0};
  BootMs calm_until_{0};       // the tables were in use: no look before this
  Ms busy_pause_{kFirstBusy};  // twice as long each time
};

}  // namespace rung::bridge
