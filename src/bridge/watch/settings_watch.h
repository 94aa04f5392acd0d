// Tells people about settings of others that harm Rung's own queues and exchanges: logs each when it appears,
// records an event, and maintains the problem "settings" in Health. Thread: the loop's.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "src/bridge/base/health.h"
#include "src/bridge/base/observers.h"
#include "src/bridge/watch/attachments.h"

namespace rung::bridge {

class SettingsWatch {
 public:
  // How many there are now, for the metric.
  struct Counts {
    std::size_t harmful = 0, fatal = 0;
  };

  SettingsWatch(Health& health, RecordEvent record) : health_(health), record_(std::move(record)) {}

  // All of them, as just found, the fatal ones first.
  void found(const std::vector<HarmfulSetting>& settings);
  Counts counts() const { return counts_; }

 private:
  Health& health_;
  const RecordEvent record_;
  std::vector<HarmfulSetting> known_;
  Counts counts_;
};

}  // namespace rung::bridge
