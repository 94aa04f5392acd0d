#include "src/bridge/retention_report.h"

#include "src/io/log.h"

namespace rung::bridge {

void RetentionReport::add(const RetentionPass& step, EpochMs now) {
  const RetentionTotals& gone = step.gone;
  totals_.tasks += gone.tasks;
  totals_.partitions += gone.partitions;
  totals_.audit += gone.audit;
  totals_.bulks += gone.bulks;
  totals_.events += gone.events;
  if (gone.tasks + gone.partitions + gone.audit + gone.bulks + gone.events > 0) totals_.last = now;
  dropped_.insert(dropped_.end(), step.dropped.begin(), step.dropped.end());
}

void RetentionReport::ended(const RetentionPass& pass, EpochMs db_now, BootMs now) {
  if (pass.keep && !pass.cut_short) tasks_done_ = db_now;
  if (pass.look && !pass.busy && !pass.refused && pass.trouble.empty()) partitions_done_ = db_now;
  if (pass.look) {
    if (!pass.trouble.empty() && pass.trouble != trouble_)
      log::warn("changing the history's partitions failed", {{"reason", pass.trouble}});
    trouble_ = pass.trouble;
  }
  const bool something =
      totals_.tasks + totals_.audit + totals_.bulks > said_.tasks + said_.audit + said_.bulks;
  if (dropped_.empty() && (!something || now - said_at_ < kSayEvery)) return;
  std::string names;
  for (const std::string& name : dropped_) names += (names.empty() ? "" : " ") + name;
  log::info("purged finished tasks", {{"retention", pass.keep ? pass.keep->count() / 1000 : 0},
                                      {"tasks", totals_.tasks - said_.tasks},
                                      {"partitions", names},
                                      {"audit", totals_.audit - said_.audit},
                                      {"bulks", totals_.bulks - said_.bulks}});
  said_ = totals_;
  said_at_ = now;
  dropped_.clear();
}

}  // namespace rung::bridge
