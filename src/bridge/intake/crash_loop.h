// Keeps a crash loop from using up a delivery limit. A process that ends before its acks arrive costs each
// message in its hands one delivery, and a limit, by whomever it was set, drops a message after a few. So
// each start is counted in the database before the first message is consumed (the count is this node's), and
// counts no more after kStable of intake, or after a drain. What follows from n unfinished starts before this
// one:
//   - A limit is known on one of our queues, and n has reached half of it: nothing is consumed until the
//   limit
//     is gone or high enough.
//   - Otherwise: from the third start on a pause before the first message, a second longer each time, at most
//     kLongestPause. A limit that was set a moment ago is not known yet: the management API shows it seconds
//     later.
// The first look at the broker's settings tells which limits there are. It is waited for, kLookTakes at most,
// if an earlier start was not finished. Thread: the loop's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  // A look at the broker's settings is over. none: the management API did not tell.
  void looked(const std::optional<std::vector<HarmfulSetting>>& settings);
  void drain();

 private:
  enum class Stage : std::uint8_t { counting, looking, pausing, stopped, consuming, over };

  void counted(std::int64_t unfinished);
  bool must_stop() const;
  void decide();
  void tick();
  void consume();
  void stop_for(const HarmfulSetting& limit);
  void write(std::int64_t count);

  const Deps deps_;
  const std::string name_;  // of the setting
  io::Timer timer_;
  Stage stage_ = Stage::over;
  std::int64_t unfinished_ = 0;  // starts before this one
  bool looked_ = false;
  std::optional<HarmfulSetting> limit_;  // the lowest
};

}  // namespace rung::bridge
