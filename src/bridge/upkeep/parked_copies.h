// Sends the owed copies of parked tasks to <prefix>.parked (parked: publish), bounded in bytes. The row is
// the authoritative parked task: a copy that cannot be made, or that the broker refuses for good, is no
// longer owed. A batch follows when the last one is recorded, a few thousand a second at most, so that copies
// do not displace deliveries. Thread: the loop's.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "src/bridge/base/outbox.h"
#include "src/bridge/base/sidecar.h"
#include "src/bridge/flight/transitions.h"
#include "src/bridge/leases/jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/time.h"

namespace rung::bridge {

class ParkedCopies {
 public:
  explicit ParkedCopies(const Sidecar& sidecar);
  // The poll, twice a second: copies are owed.
  void found();
  // No further batches.
  void stop() { batches_left_ = 0; }

 private:
  struct Copy {
    Task task;
    StoredMessage stored;
  };
  static Result<std::vector<Copy>> read(Store& store, const std::vector<TaskId>& ids, std::size_t room);
  Jobs::Work next_batch();
  Outgoing outgoing_for(const Copy& copy) const;
  void send(const Copy& copy);
  void done(const Task& task, bool no_queue = false);

  const Sidecar& sidecar_;
  const std::string exchange_;
  const Jobs::Id send_;
  std::unordered_set<TaskId> under_way_;  // sent, and not recorded yet
  std::unordered_set<TaskId> recorded_;   // since the last poll: a cluster's other node may not have it yet
  std::optional<BootMs> returned_at_;     // the exchange or its queue was missing then, and since
  int batches_left_ = 0;                  // until the next poll
  std::size_t bytes_ = 0;                 // bodies of those without an answer
};

}  // namespace rung::bridge
