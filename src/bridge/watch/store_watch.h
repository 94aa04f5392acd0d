// Watches the database's state: logs each change, and maintains the problems "database", "clock", "restored"
// and "behind" in Health. Thread: the loop's.
#pragma once

#include <cstdint>
#include <string>

#include "src/bridge/base/health.h"
#include "src/bridge/base/observers.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/time.h"
#include "src/io/loop.h"

namespace rung::bridge {

class StoreWatch {
 public:
  // `node`: our name, for events.
  StoreWatch(io::Loop& loop, Health& health, RecordEvent record, std::string node);

  void changed(const StoreJobs::Status& status);
  void noticed(const Shards::Notice& notice);
  // A consumer answered a delivery of ours that the task's row does not know, or the row is missing: commits
  // were lost.
  void behind(TaskId id, const std::string& how);

  bool away() const { return away_; }
  std::int64_t rows_behind() const { return rows_behind_; }  // since the start
  const std::string& refusal() const { return refusal_; }    // "" = the database does not refuse us

 private:
  const Clock& clock_;
  Health& health_;
  const RecordEvent record_;
  const std::string node_;
  bool away_ = false;
  BootMs away_since_{0};
  std::string refusal_;
  std::int64_t rows_behind_ = 0;
  io::Timer clock_calm_, restored_calm_, behind_calm_;  // clear the problems of these names
};

}  // namespace rung::bridge
