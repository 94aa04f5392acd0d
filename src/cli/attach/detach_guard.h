// What rung detach does before it removes a policy: counts the tasks under way, asks, or waits for them.
// Thread: main's; blocks. Prints errors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/cli/shared/command.h"

namespace rung::rabbit {
class QueueAdmin;
}

namespace rung::cli {

struct DetachChoice {
  bool force = false;        // whatever is under way
  bool drain = false;        // pause the queues, and wait until no delivery is under way
  bool send_back = false;    // with drain: first deliver what is scheduled
  std::string wait = "30m";  // with drain: at most so long
};

// Says that a drain will not end. A publish that was lost with its connection is repeated, but a pause holds
// the repeat back: its task stays `publishing`.
class StuckDrain {
 public:
  static constexpr Ms kAfter{std::chrono::minutes{1}};
  // For a minute nothing but such tasks has been left. `others`: deliveries that will be answered.
  bool is_stuck(std::int64_t publishing, std::int64_t others, BootMs now);

 private:
  std::int64_t publishing_ = 0;
  BootMs since_{0};
};

// kSuccess: the queues may be detached. `session`: opened for the database that has their tasks; without a
// store if it cannot be reached, and `force` is set.
int before_detach(const GroupChoice& group, const DetachChoice& choice,
                  const std::vector<std::string>& queues, Session& session);

// Tells the sidecars at once which queues are not attached any more, so that silence after their deliveries
// is no success. They would find out with their next look.
void after_detach(rabbit::QueueAdmin& admin, const std::string& prefix,
                  const std::vector<std::string>& queues, Session& session);

}  // namespace rung::cli
