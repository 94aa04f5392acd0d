#include "src/bridge/watch/store_watch.h"

#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kNoticeStands{std::chrono::minutes{10}};  // how long a notice stays a problem, for people to see

}  // namespace

StoreWatch::StoreWatch(io::Loop& loop, Health& health, RecordEvent record, std::string node)
    : clock_(loop.clock()),
      health_(health),
      record_(std::move(record)),
      node_(std::move(node)),
      clock_calm_(loop, [this] { health_.clear("clock"); }),
      restored_calm_(loop, [this] { health_.clear("restored"); }),
      behind_calm_(loop, [this] { health_.clear("behind"); }) {}

void StoreWatch::changed(const StoreJobs::Status& status) {
  if (!status.away) {
    refusal_.clear();
    if (!std::exchange(away_, false)) return;
    log::info("database available again", {{"away_ms", (clock_.boot() - away_since_).count()}});
    return health_.clear("database");
  }
  refusal_ = status.refused ? status.reason : "";
  const bool first = !std::exchange(away_, true);
  if (first) away_since_ = clock_.boot();
  if (status.refused) {
    log::warn("database refuses this instance: intake waits, nothing is acked", {{"reason", status.reason}});
  } else {
    log::warn(first ? "database unavailable: intake waits, nothing is acked" : "database still unavailable",
              {{"reason", status.reason}});
  }
  health_.set("database", status.reason, Health::Effect::not_ready);
}

void StoreWatch::noticed(const Shards::Notice& notice) {
  const bool restored = notice.kind == Shards::Notice::Kind::restored;
  if (restored)
    log::error("the database went back in time, as by a restored backup: registered anew",
               {{"detail", notice.detail}});
  else
    log::warn("the database's clock stepped", {{"detail", notice.detail}});
  health_.set(restored ? "restored" : "clock", notice.detail);
  (restored ? restored_calm_ : clock_calm_).start(kNoticeStands);
  record_(restored ? "database_restored" : "clock_step", node_, notice.detail);
}

void StoreWatch::behind(TaskId id, const std::string& how) {
  ++rows_behind_;
  log::warn("row is older than its delivery: updated to that attempt", {{"id", id.value}, {"how", how}});
  const std::string detail =
      "the database lacks commits that it had confirmed (a replica was promoted without them, or a node "
      "lags); latest case: retry-id " +
      id.str() + ", " + how;
  if (!health_.has("behind")) record_("rows_behind", node_, detail);
  health_.set("behind", detail);
  behind_calm_.start(kNoticeStands);
}

}  // namespace rung::bridge
