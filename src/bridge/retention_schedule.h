// Decides what the next retention pass covers: all finished tasks from the beginning, the partitions, the
// leftovers in partitions that stay. Thread: the loop's.
#pragma once

#include <optional>

#include "src/bridge/retention_pass.h"
#include "src/core/time.h"

namespace rung::bridge {

class RetentionSchedule {
 public:
  // The next pass covers all of it: the retention has changed.
  void look_at_all() { walk_at_ = look_at_ = sweep_at_ = {0}; }
  // The same, and forgets the state of the tables: another instance was in charge.
  void begin_anew();

  // `last`: the previous pass; the next one continues from its cursor.
  RetentionPass next(const RetentionPass& last, std::optional<Ms> keep, EpochMs now, BootMs boot);
  // Tasks were deleted: their partition may be empty.
  void tasks_went(BootMs now);
  void ended(const RetentionPass& pass, BootMs now);
  // An error cut the pass short. Returns how long to rest.
  Ms failed(BootMs now);

 private:
  static constexpr Ms kFirstBusy{std::chrono::minutes{5}};

  // 0 = with the next pass.
  BootMs walk_at_{0}, look_at_{0}, sweep_at_{0};
  BootMs calm_until_{0};       // the tables were in use: no check before this
  Ms busy_pause_{kFirstBusy};  // twice as long each time
};

}  // namespace rung::bridge
