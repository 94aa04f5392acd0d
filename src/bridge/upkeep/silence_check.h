// Ends attempts that have waited too long for a consumer's report: presumed success, or the next level, as
// the queue's rules say. Thread: the loop's.
//
// Silence is a success only if a failure would have arrived. Where it means success, it is compared with what
// all instances know of the queue (rung_attachments), by a look at the broker from after the end of the
// silence; until there is one, the task is left as it is, and a look asked for:
//   attached, and not seen detached since the delivery   presumed success
//   not attached, or not for a part of that time         held open: the task stays awaiting, without an end
//   never attached (delays; consumers that publish their failures themselves)   presumed success, as ever
//   no answer   as last known; if that was attached, and somebody got an answer within the last hour, the
//               task waits kUnverifiedSilence for one; then it is presumed successful, counted as unverified
// And silence begins when the message has been read (read_at()): until then, and for as long as that queue's
// silence lasts after it, its end is put off. If messages always wait in the queue and nobody can tell how
// many were published to it, it counts as read after kUnverifiedSilence, if there is a consumer: unverified.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "src/bridge/base/sidecar.h"
#include "src/bridge/flight/transitions.h"
#include "src/bridge/leases/jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/bridge/watch/attachments.h"
#include "src/core/base/clock.h"
#include "src/core/rules/policy.h"

namespace rung::bridge {

// Since the start.
struct SilenceCounts {
  std::int64_t held = 0;  // held open
  std::int64_t unverified =
      0;  // presumed successful although nobody could tell whether the queue was attached
};

class SilenceCheck {
 public:
  explicit SilenceCheck(const Sidecar& sidecar) : sidecar_(sidecar) {}
  // For owners of shards, when the silence of some task may be over.
  Jobs::Work check();
  // Asks which queues have deliveries that await an answer, whoever made them: the attachments watch these.
  // When shards are gained, and every ten seconds.
  Jobs::Work find_queues();

  const SilenceCounts& counts() const { return counts_; }

 private:
  // A task whose silence may be over.
  struct Silent {
    EpochMs ends_at;
    EpochMs published;  // without the time of its confirm: as early as it can have been
    EpochMs queued;     // by then it was in its queue, by the database's clock
    Silence silence;    // what it means for this delivery
  };
  struct Found {
    std::vector<DueEntry> rows;
    std::map<TaskId, Awaiting> awaiting;
    AttachmentRecords known;
  };
  // What to say; none: a look is awaited.
  struct Verdict {
    event::SilenceOver how = {};
    bool unverified = false;  // it ends although it is not known whether it was attached and read
  };

  static Result<Found> read(Store& store, const std::vector<int>& shards, EpochMs until);
  void found(const Found& due);
  std::optional<Verdict> judge(const std::string& queue, const Silent& task,
                               const AttachmentRecord* known) const;
  bool needs_attachment(std::string_view queue) const;
  void end(TaskId task, Verdict verdict);

  const Sidecar& sidecar_;
  std::unordered_set<TaskId> ending_;
  SilenceCounts counts_;
};

}  // namespace rung::bridge
