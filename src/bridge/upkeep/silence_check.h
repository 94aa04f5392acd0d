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
//   batch
//               waits kUnverified for one; then it is presumed successful, counted as unverified
// One look for a batch, however many tasks and queues it has.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "src/bridge/base/observers.h"
#include "src/bridge/base/store_jobs.h"
#include "src/bridge/changes/transitions.h"
#include "src/bridge/leases/shards.h"
#include "src/bridge/watch/attachments.h"
#include "src/core/base/db_clock.h"
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
  // Silence is not judged before remove() has been called: what it meant for a queue that the config does not
  // name any more is not known.
  void wait_for_removed() { knows_removed_ = false; }
  void remove(std::vector<RemovedQueue> queues);
  // The attachments have taken the result of a look.
  void looked();
  // Asks which queues have deliveries that await an answer, whoever made them: the attachments watch these.
  // Call when shards are gained, and every ten seconds.
  void find_queues();

  const SilenceCounts& counts() const { return counts_; }

 private:
  using Batch = std::map<std::string, std::vector<DueEntry>, std::less<>>;  // by queue
  struct Known {
    std::vector<AttachmentRecord> records;
    std::map<TaskId, EpochMs> published;
  };
  // What is done with the tasks of a queue.
  struct Verdict {
    bool wait = false;  // nothing yet
    bool verified = false;
    const AttachmentRecord* known = nullptr;  // nullptr: it has never been attached
  };

  std::vector<std::string> postponed();
  void found(const std::vector<DueEntry>& rows);
  void look_up();
  void decide(const Batch& batch, const Known& known);
  Verdict verdict(const std::string& queue, const std::vector<DueEntry>& rows, const Known& known) const;
  bool needs_look(const DueEntry& row) const;
  // What the queue's rules said when it was delivered; none: what they say now.
  std::optional<Silence> said_then(const DueEntry& row) const;
  Silence::Means queue_means(const DueEntry& row) const;
  void end(const DueEntry& row, event::SilenceOver how, bool unverified);

  const Deps deps_;
  std::unordered_set<TaskId> ending_;
  std::unordered_set<TaskId> own_silence_;  // their silence means success, although their queue's does not
  std::map<std::string, BootMs, std::less<>> postponed_;
  Batch batch_;  // waits for a look, requested at asked_at_
  BootMs asked_at_{0};
  std::vector<RemovedQueue> removed_;
  bool knows_removed_ = true;
  bool waiting_ = false;
  bool finding_ = false;  // the queues
  bool busy_ = false;
  SilenceCounts counts_;
};

}  // namespace rung::bridge
