// When nothing is taken in, and why.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "plugin/broker.h"
#include "src/bridge/base/health.h"
#include "src/bridge/base/observers.h"
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
  struct Deps {
    IntakeHolds& holds;
    std::string_view broker;  // Broker::name()
    Health& health;
    std::function<BootMs()> answered;  // when the database last answered
    std::function<BootMs()> served;    // the same, without refusals
    std::function<void()> forget;      // drops all deliveries in hand
    RecordEvent record;
    std::string node;  // our name, for events
  };
  // `outage_timeout`: how long without an answer until intake pauses.
  IntakePause(io::Loop& loop, Deps deps, Ms outage_timeout);

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
  void begin(BootMs now);

  const Deps deps_;
  const Clock& clock_;
  const Ms outage_timeout_;
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

}  // namespace rung::bridge
