// Without its database an instance can store nothing: its unacked messages wait in vain, while another
// instance could take them. When the database has not answered for a lease, we stop consuming the inlets and
// return unacked messages to the broker; when it answers, we consume again. Without the database we cannot
// know whether another instance exists. If we are alone, the messages wait in the queue just as well as here,
// and none goes back and forth, since nothing is consumed.
//
// A database that refuses (a missing right or table) counts as answering: it refuses the others too. Thread:
// the loop's.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "src/bridge/health.h"
#include "src/bridge/intake_holds.h"
#include "src/core/time.h"
#include "src/io/loop.h"
#include "src/store/system.h"

namespace rung::bridge {

class IntakePause {
 public:
  struct Deps {
    IntakeHolds& holds;
    std::string_view broker;  // Broker::name()
    Health& health;
    std::function<BootMs()> answered;  // when the database last answered
    std::function<void()> forget;      // drops all deliveries in hand
    std::function<void(SystemEvent)> record;
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
