// Without its database an instance can take nothing in: what it holds unacked then waits for nothing, while
// another instance could have it. When the database has not answered for a lease, the inlets are no longer
// consumed and what is unacked goes back to the broker; when it answers, they are consumed again. Whether
// another instance is there cannot be asked without the database: alone, the messages wait in the queue as
// well as here, and none is handed to and fro, for nothing is consumed.
//
// A database that refuses (a right, a table) answers: it refuses the others too. Thread: the loop's.
#pragma once

#include <functional>
#include <string>

#include "plugin/broker.h"
#include "src/bridge/health.h"
#include "src/core/time.h"
#include "src/io/loop.h"
#include "src/store/system.h"

namespace rung::bridge {

class IntakePause {
 public:
  struct Deps {
    Broker& broker;
    Health& health;
    std::function<BootMs()> answered;  // when the database last answered
    std::function<void()> forget;      // lets go of all deliveries in hand
    std::function<void(SystemEvent)> record;
    std::string node;  // our name, for events
  };
  // `outage_timeout`: so long without an answer.
  IntakePause(io::Loop& loop, Deps deps, Ms outage_timeout);

  // Somebody waits for the database, or nobody does any more.
  void database_away(bool yes);
  void drain();

 private:
  void look();
  void pause(BootMs now);
  void resume(BootMs now);

  const Deps deps_;
  const Clock& clock_;
  const Ms outage_timeout_;
  io::Timer timer_;
  bool away_ = false;
  bool paused_ = false;
  bool draining_ = false;
  BootMs paused_at_{0}, resumed_at_{0};  // 0 = never
  // A pause lasts for this at least: longer each time where the database comes and goes, so that the same
  // messages are not taken and given back all the time.
  Ms least_{0};
};

}  // namespace rung::bridge
