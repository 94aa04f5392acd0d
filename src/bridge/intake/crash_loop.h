// Keeps a crash loop from using up a delivery limit. A process that ends before its acks arrive costs each
// message in its hands one delivery, and a limit, by whomever it was set, drops a message after a few. So
// each start is counted in the database before the first message is consumed (the count is this node's), and
// counts no more after kStable of intake, or after a drain. With unfinished starts before this one, the
// intake waits for the first look at the queues, kLookTakes at most; from the third on it pauses, a second
// longer each time. If one of our queues has a limit, and half as many starts were not finished, nothing is
// consumed until the limit is gone or high enough. Thread: the loop's.
#pragma once

#include <cstdint>
#include <string>

#include "src/bridge/base/health.h"
#include "src/bridge/base/observers.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/intake/intake_pause.h"
#include "src/bridge/watch/attachments.h"
#include "src/io/loop.h"

namespace rung::bridge {

class CrashLoop {
 public:
  static constexpr Ms kStable{60'000};
  static constexpr Ms kLookTakes{5'000};
  static constexpr Ms kLongestPause{30'000};

  struct Deps {
    StoreJobs& jobs;
    IntakeHolds& holds;
    Health& health;
    RecordEvent record;
    std::string node;
  };
  CrashLoop(io::Loop& loop, Deps deps);

  // Holds the intake, and asks the database.
  void start();
  // If the management API did not tell, what it told last applies.
  void looked(const AttachmentLook& look);
  void drain();

 private:
  enum class Stage : std::uint8_t { counting, waiting, stopped, consuming, over };

  void counted(std::int64_t unfinished);
  void judge();
  void stop();
  void tick();
  void consume();
  void write(std::int64_t count);

  const Deps deps_;
  const std::string name_;  // of the setting
  io::Timer timer_;
  Stage stage_ = Stage::over;
  std::int64_t unfinished_ = 0;  // starts before this one
  bool looked_ = false;
  DeliveryLimit limit_;
};

}  // namespace rung::bridge
