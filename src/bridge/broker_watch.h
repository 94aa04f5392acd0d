// How the broker stands: logs each change, keeps the problems "broker" and "topology" of Health, and gives
// our shards up while we cannot publish and another instance can. Thread: the loop's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "plugin/broker.h"
#include "src/bridge/ability.h"
#include "src/bridge/health.h"
#include "src/bridge/shards.h"
#include "src/core/time.h"
#include "src/io/loop.h"
#include "src/store/system.h"

namespace rung::bridge {

class BrokerWatch {
 public:
  struct Deps {
    Health& health;
    Shards& shards;
    std::function<void(SystemEvent)> record;
    std::function<void()> given_up;  // called again and again while our shards are given up
    std::string_view broker;         // Broker::name()
  };
  // `node`: our name, for events. `down_timeout`: for so long the connection may be down before we step back.
  BrokerWatch(io::Loop& loop, Deps deps, std::string node, Ms down_timeout);

  void start();
  void stop();
  void changed(const BrokerStatus& status);
  void checked(const TopologyReport& report);

  const BrokerStatus& status() const { return status_; }
  bool takes_messages() const { return status_.publishing && !status_.blocked; }
  bool has_served() const { return has_served_; }    // consuming and publishing, once
  std::int64_t repairs() const { return repairs_; }  // of the topology, since the start

 private:
  void say_away(bool refused_before);
  void look();

  const Deps deps_;
  const Clock& clock_;
  const std::string node_;
  BrokerStatus status_;
  Ability ability_;
  io::Timer timer_;
  bool has_served_ = false;
  bool stepped_back_ = false;  // as it was told last
  BootMs away_since_{0};       // 0 = it is not away
  std::int64_t repairs_ = 0;
};

}  // namespace rung::bridge
