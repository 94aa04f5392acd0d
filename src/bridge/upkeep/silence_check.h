// Ends attempts that have waited too long for a consumer's report: presumed success, or the next level, as
// the queue's rules say. Thread: the loop's.
//
// Silence is a success only if a failure would have arrived. So for the queues of a batch whose silence means
// success it asks for a look at the broker that is not older than the end of their silence, and combines it
// with what all instances know (rung_attachments):
//   attached, and not seen detached since the delivery   presumed success
//   not attached, or not for a part of that time         held open: the task stays awaiting, without an end
//   never attached (delays; consumers that publish their failures themselves)   presumed success, as ever
//   no answer   as last known; if that was attached, and somebody got an answer within the last hour, the
//               task waits kUnverified for one; then it is presumed successful, counted as unverified
// And silence begins when the message has been read (read_at()): until then, and for as long as that queue's
// silence lasts after it, its end is put off. If messages always wait in the queue and nobody can tell how
// many were published to it, it counts as read after kUnverified, if there is a consumer: unverified. One
// look for a batch, however many tasks and queues it has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "src/bridge/base/observers.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/changes/transitions.h"
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
  static constexpr Ms kUnverified = kUnverifiedSilence;

  struct Deps {
    StoreJobs& jobs;
    Shards& shards;
    Transitions& transitions;
    DbClock& clock;
    TaskObserver& observer;
    Attachments& attachments;
    const RuleBookPtr& rules;  // replaced by a reload
  };

  explicit SilenceCheck(Deps deps) : deps_(deps) {}
  // Call each second.
  void tick();
  // Call if the silence of some task may be over, with shards.
  void check();
  // The attachments have taken the result of a look.
  void looked();
  // Asks which queues have deliveries that await an answer, whoever made them: the attachments watch these.
  // When shards are gained, and every ten seconds.
  Jobs::Work find_queues();

  const SilenceCounts& counts() const { return counts_; }

 private:
  // A task whose silence may be over.
  struct Silent {
    TaskId id;
    EpochMs published;  // without the time of its confirm: as early as it can have been
    EpochMs queued;     // by then it was in its queue, by the database's clock
    Silence silence;    // what it means for this delivery
  };
  struct Found {
    std::vector<DueEntry> rows;
    std::map<TaskId, Awaiting> awaiting;
  };
  using Batch = std::map<std::string, std::vector<Silent>, std::less<>>;  // by queue

  void found(const Found& due);
  void look_up();
  void decide(const Batch& batch, const std::vector<AttachmentRecord>& records);
  void decide(const std::string& queue, const std::vector<Silent>& tasks, const AttachmentRecord* known);
  // When its silence ends, if not now, and why. `unverified` becomes true if it ends
  // because nobody can tell.
  std::optional<EpochMs> ends_later(const std::string& queue, const Silent& task,
                                    const AttachmentRecord* known, bool& unverified, std::string& why) const;
  bool needs_attachment(std::string_view queue) const;
  void end(const Silent& task, event::SilenceOver how, bool unverified);

  const Deps deps_;
  std::unordered_set<TaskId> ending_;
  Batch batch_;  // waits for a look, requested at asked_at_
  BootMs asked_at_{0};
  bool can_look_ = false;  // somebody answers what is asked of the attachments
  bool waiting_ = false;
  bool busy_ = false;
  SilenceCounts counts_;
};

}  // namespace rung::bridge
