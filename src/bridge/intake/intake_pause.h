// When nothing is taken in, and why.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "plugin/broker.h"
#include "src/bridge/base/sidecar.h"
#include "src/bridge/watch/attachments.h"
#include "src/core/base/time.h"
#include "src/io/loop.h"

namespace rung::bridge {

// Whether the intake stands still: as long as anybody holds it. Thread: the loop's.
class IntakeHolds {
 public:
  enum class Why { database_away, place, crash_loop };

  explicit IntakeHolds(Broker& broker) : broker_(broker) {}

  // With each hold, also a second one, the broker takes back what is unacked.
  void hold(Why why) {
    holds_.insert(why);
    broker_.pause_intake(true);
  }
  bool held() const { return !holds_.empty(); }
  void release(Why why) {
    if (holds_.erase(why) > 0 && holds_.empty()) broker_.pause_intake(false);
  }

 private:
  Broker& broker_;
  std::set<Why> holds_;
};

// Without its database an instance can store nothing: its unacked messages wait in vain, while another
// instance could take them. When the database has not answered for a lease, we stop consuming the inlets and
// return unacked messages to the broker; when it answers, we consume again. Without the database we cannot
// know whether another instance exists. If we are alone, the messages wait in the queue just as well as here,
// and none goes back and forth, since nothing is consumed.
//
// A database that refuses (a missing right or table) counts as answering, for it refuses the others too; but
// a pause only ends once it serves us. Thread: the loop's.
class IntakePause {
 public:
  IntakePause(const Sidecar& sidecar, IntakeHolds& holds);

  // Consumes nothing until the database has answered for the first time: a process that ends before would
  // only use up deliveries, which a delivery limit counts.
  void start();
  // The database may have answered: looks now instead of at the next turn.
  void answered() {
    if (paused_) look();
  }
  // Whether any job waits for the database.
  void database_away(bool yes);
  void drain();

 private:
  void look();
  void pause(BootMs now);
  void resume(BootMs now);

  const Sidecar& sidecar_;
  IntakeHolds& holds_;
  io::Timer timer_;
  bool away_ = false;
  bool paused_ = false;
  bool begun_ = true;  // false: paused since the start
  bool draining_ = false;
  BootMs paused_at_{0}, resumed_at_{0};  // 0 = never
  // The minimum length of a pause: longer each time if the database comes and goes, so that the same messages
  // are not taken and returned over and over.
  Ms least_{0};
};

// Keeps a crash loop from using up a delivery limit. A process that ends before its acks arrive costs each
// message in its hands one delivery, and a limit, by whomever it was set, drops a message after a few. So
// each start is counted in the database before the first message is consumed (the count is this node's), and
// counts no more after kStable of intake, or after a drain. With unfinished starts before this one, the
// intake waits for the first look at the queues, kLookTakes at most; from the third on it pauses, a second
// longer each time. If one of our queues has a limit, and half as many starts were not finished, nothing is
// consumed until the limit is gone or high enough. Thread: the loop's.
class CrashLoop {
 public:
  static constexpr Ms kStable{60'000};
  static constexpr Ms kLookTakes{5'000};
  static constexpr Ms kLongestPause{30'000};

  CrashLoop(const Sidecar& sidecar, IntakeHolds& holds);

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

  const Sidecar& sidecar_;
  IntakeHolds& holds_;
  const std::string name_;  // of the setting
  io::Timer timer_;
  Stage stage_ = Stage::over;
  std::int64_t unfinished_ = 0;  // starts before this one
  bool looked_ = false;
  DeliveryLimit limit_;
};

}  // namespace rung::bridge
