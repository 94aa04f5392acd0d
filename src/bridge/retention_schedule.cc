#include "src/bridge/retention_schedule.h"

#include <algorithm>
#include <chrono>

namespace rung::bridge {
namespace {

using Stage = RetentionPass::Stage;

constexpr Ms kWalkEvery{std::chrono::hours{24}};  // from the beginning: skipped tasks, also parked ones
constexpr Ms kSweepPartitionsEvery{std::chrono::hours{24}};
constexpr Ms kLookEvery{std::chrono::hours{1}};
constexpr Ms kLookSoon{std::chrono::minutes{1}};  // after tasks were deleted
constexpr Ms kLongestBusy{std::chrono::hours{1}};

}  // namespace

void RetentionSchedule::begin_anew() {
  look_at_all();
  calm_until_ = {0};
  busy_pause_ = kFirstBusy;
}

RetentionPass RetentionSchedule::next(const RetentionPass& last, std::optional<Ms> keep, EpochMs now,
                                      BootMs boot) {
  RetentionPass pass;
  pass.cursor = last.cursor;
  if (boot >= walk_at_) {
    pass.cursor = {};
    walk_at_ = boot + kWalkEvery;
  }
  pass.keep = keep;
  pass.now = now;
  pass.began = boot;
  pass.look = boot >= look_at_ && boot >= calm_until_;
  pass.sweep = pass.look && boot >= sweep_at_;
  pass.stage = pass.look ? Stage::add : keep ? Stage::tasks : Stage::done;
  return pass;
}

void RetentionSchedule::tasks_went(BootMs now) { look_at_ = std::min(look_at_, now + kLookSoon); }

void RetentionSchedule::ended(const RetentionPass& pass, BootMs now) {
  if (!pass.look) return;
  look_at_ = now + kLookEvery;
  if (pass.busy)
    calm_until_ = look_at_ = now + busy_pause_;
  else if (pass.sweep)
    sweep_at_ = now + kSweepPartitionsEvery;
  busy_pause_ = pass.busy ? std::min(busy_pause_ * 2, kLongestBusy) : kFirstBusy;
}

Ms RetentionSchedule::failed(BootMs now) {
  look_at_ = now + kLookEvery;
  return kLookEvery;
}

}  // namespace rung::bridge
