// Tells people about settings of others that harm Rung's own queues and exchanges: logs each when it appears,
// records an event, and maintains the problem "settings" in Health. Thread: the loop's.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "src/bridge/base/health.h"
#include "src/bridge/watch/attachments.h"
#include "src/store/system.h"

namespace rung::bridge {

class SettingsWatch {
 public:
  // How many there are now, for the metric.
  struct Counts {
    std::size_t harmful = 0, fatal = 0;
  };

  SettingsWatch(Health& health, std::function<void(SystemEvent)> record)
      : health_(health), record_(std::move(record)) {}

  // All of them, as just found, the fatal ones first.
  void found(const std::vector<HarmfulSetting>& settings);
  Counts counts() const { return counts_; }

 private:
  Health& health_;
  const std::function<void(SystemEvent)> record_;
  std::vector<HarmfulSetting> known_;
  Counts counts_;
};

}  // namespace rung::bridge
