// Whether the intake stands still: as long as anybody holds it. Thread: the loop's.
#pragma once

#include <cstdint>

#include "plugin/broker.h"

namespace rung::bridge {

class IntakeHolds {
 public:
  enum class Why : std::uint8_t { database_away = 1, place = 2, crash_loop = 4 };

  explicit IntakeHolds(Broker& broker) : broker_(broker) {}

  // With each hold, also a second one, the broker takes back what is unacked.
  void hold(Why why) {
    holds_ = static_cast<std::uint8_t>(holds_ | static_cast<std::uint8_t>(why));
    broker_.pause_intake(true);
  }
  bool held() const { return holds_ != 0; }
  void release(Why why) {
    if (holds_ == 0) return;
    holds_ = static_cast<std::uint8_t>(holds_ & ~static_cast<std::uint8_t>(why));
    if (holds_ == 0) broker_.pause_intake(false);
  }

 private:
  Broker& broker_;
  std::uint8_t holds_ = 0;
};

}  // namespace rung::bridge
