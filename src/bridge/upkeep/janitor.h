// Rows of the table of jobs (jobs.h), so that every task is eventually moved by some instance:
//   twice a second  the poll: one statement asks which kinds of work wait in the tables (WorkWaiting). What
//                   has nothing to do asks nothing by itself: an idle sidecar costs the database little
//                   DueSweep: rows that are due and not tracked -> dispatch
//                   ParkedCopies: copies owed to <prefix>.parked
//                   steps of bulks (bulk.h), changes of the counts of causes
//   each second     SilenceCheck: expired silence -> presumed success, or the next level
//   (all of these only if the poll has found that rows wait)
//   at a takeover and every ten seconds  StrandedTasks: tasks left in `publishing` -> the same attempt
//   again; queues of what awaits an answer -> attachments
// Thread: the loop's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "src/bridge/base/flow_counts.h"
#include "src/bridge/base/outbox.h"
#include "src/bridge/base/sidecar.h"
#include "src/bridge/changes/bulk.h"
#include "src/bridge/flight/due.h"
#include "src/bridge/flight/transitions.h"
#include "src/bridge/leases/jobs.h"
#include "src/bridge/leases/shards.h"
#include "src/bridge/watch/attachments.h"

namespace rung::bridge {

// Ends attempts that have waited too long for a consumer's report: presumed success, or the next level, as
// the queue's rules say. Thread: the loop's.
//
// Silence is a success only if a failure would have arrived. Where it means success, it is compared with what
// all instances know of the queue (rung_attachments), by a look at the broker from after the end of the
// silence; until there is one, the task is left as it is, and a look asked for:
//   attached, and not seen detached since the delivery   presumed success
//   not attached, or not for a part of that time         held open: the task stays awaiting, without an end
//   never attached (delays; consumers that publish their failures themselves)   presumed success, as ever
//   no answer   as last known; if that was attached, and an instance got an answer within the last hour, the
//               task waits kUnverifiedSilence for one; then it is presumed successful, counted as unverified
// Silence begins when the message has been read (read_at()); its end is put off until then. If the queue is
// never empty and the broker does not tell how many messages were published to it, a message counts as read
// after kUnverifiedSilence, provided that there is a consumer: unverified.
class SilenceCheck {
 public:
  explicit SilenceCheck(const Sidecar& sidecar) : sidecar_(sidecar) {}
  // For owners of shards, when the silence of some task may be over.
  Jobs::Work check();
  // Reads which queues have deliveries of any instance that await an answer: Attachments watches these.
  // When shards are gained, and every ten seconds.
  Jobs::Work find_queues();

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
    std::map<TaskId, Awaiting> awaiting = {};
    AttachmentRecords known = {};
  };
  // What to say; none: a look is awaited.
  struct Verdict {
    event::SilenceOver how = {};
    bool unverified = false;  // it ends although it is not known whether it was attached and read
  };

  void found(const Found& due);
  std::optional<Verdict> judge(const std::string& queue, const Silent& task,
                               const AttachmentRecord* known) const;
  void end(TaskId task, Verdict verdict);

  const Sidecar& sidecar_;
  std::unordered_set<TaskId> ending_;
};

// Sends the owed copies of parked tasks to <prefix>.parked (parked: publish), bounded in bytes. The row is
// the authoritative parked task: a copy that cannot be made, or that the broker refuses for good, is no
// longer owed. A batch follows when the last one is recorded, a few thousand a second at most, so that copies
// do not displace deliveries. Thread: the loop's.
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
  static std::vector<Copy> read(Store& store, const std::vector<TaskId>& ids, std::size_t room);
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
  std::size_t bytes_ = 0;                 // of those without an answer
};

// Adds what this instance has counted of promises of lateness and of activity (FlowCounts) to the database,
// every few seconds and for all queues together. A process that dies takes with it what it has not added.
// The leader deletes what nothing needs any more (Store::forget). Thread: the loop's.
class CountUpkeep {
 public:
  static constexpr Ms kEvery{5000};

  CountUpkeep(Jobs& jobs, const DbClock& clock, const FlowCounts& counts, const NodeIdentity& identity);
  // Adds what there is. Before the end of the process, too: StoreThreads does what is submitted before it is
  // stopped.
  void add() { jobs_.run(add_); }

 private:
  Jobs::Work next();
  void fill();
  void added();
  Jobs::Work forget();

  Jobs& jobs_;
  const DbClock& clock_;
  const FlowCounts& counts_;
  const NodeIdentity& identity_;
  const Jobs::Id add_, forget_;
  std::map<std::string, CountBatch::Change> told_;  // what the database has of FlowCounts, by its label
  std::int64_t batches_ = 0;
  std::shared_ptr<const CountBatch> pending_;  // not known to be in the database
};

class Janitor {
 public:
  explicit Janitor(const Sidecar& sidecar);

  void start() { started_ = true; }
  void stop();
  // Shards were gained: looks for their stranded rows once the former owner's connection must be dead.
  // Looks also for the queues of what awaits an answer.
  void gained(const std::vector<Gained>& gained) {
    stranded_.gained(gained);
    sidecar_.table.run(find_queues_);
  }

 private:
  void poll();
  void found(const WorkWaiting& waiting);

  const Sidecar& sidecar_;
  DueSweep sweep_;
  SilenceCheck silence_;
  ParkedCopies copies_;
  StrandedTasks stranded_;
  BulkRunner bulks_;
  bool started_ = false;
  const Jobs::Id count_causes_, check_silence_, find_queues_;
  std::array<bool, 3> busy_{};  // polls by lane: one that is stuck does not stop the others
  std::size_t turn_ = 0;
  // The last poll found no work. With work, the flow's lane is busy and would delay the poll.
  bool quiet_ = true;
};

}  // namespace rung::bridge
