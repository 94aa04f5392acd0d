#include "src/bridge/leases/jobs.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kLookForOurs{1000};  // whether it is this instance's by now

}  // namespace

Jobs::Jobs(io::Loop& loop, StoreJobs& store, const Shards& shards)
    : clock_(loop.clock()), store_(store), shards_(shards), timer_(loop, [this] { tick(); }) {}

Jobs::Id Jobs::add(Job job) {
  rows_.push_back({std::move(job)});
  return rows_.size() - 1;
}

void Jobs::each(const char* name, Ms period, Who who, std::function<void()> act) {
  add({name, period, Lane::flow, who, [act = std::move(act)] {
         act();
         return Work{};
       }});
}

void Jobs::start() {
  started_ = true;
  for (Row& row : rows_) row.at = now() + std::min(row.job.period, kLookForOurs);
  arm();
}

void Jobs::stop() {
  started_ = false;
  timer_.stop();
}

void Jobs::want(Id job) {
  if (!std::exchange(rows_[job].wanted, true)) arm();
}

void Jobs::soon(Id job, Ms after) {
  rows_[job].at = now() + after;
  rows_[job].wanted = true;
  arm();
}

void Jobs::run(Id job) {
  Row& row = rows_[job];
  if (row.busy) {
    row.again = true;
    return;
  }
  begin(row);
}

bool Jobs::is_ours(const Job& job) const {
  if (job.who == Who::all) return true;
  return job.who == Who::leader ? shards_.held(0) : shards_.any();
}

void Jobs::tick() {
  for (Row& row : rows_) {
    if (row.busy || row.at > now() || (row.job.on_demand && !row.wanted)) continue;
    if (is_ours(row.job)) {
      begin(row);
    } else {
      row.at = now() + std::min(row.job.period, kLookForOurs);
    }
  }
  arm();
}

void Jobs::arm() {
  if (!started_) return;
  std::optional<BootMs> first;
  for (const Row& row : rows_) {
    if (row.busy || (row.job.on_demand && !row.wanted)) continue;
    if (!first || row.at < *first) first = row.at;
  }
  if (first) timer_.start(std::max(*first - now(), Ms{0}));
}

void Jobs::begin(Row& row) {
  row.at = now() + row.job.period;
  row.wanted = false;
  Work work = row.job.begin();
  if (!work) return;
  row.busy = true;
  store_.submit<Then>(row.job.lane, std::move(work),
                      [this, &row](const Result<Then>& then) { ended(row, then); });
}

void Jobs::ended(Row& row, const Result<Then>& then) {
  row.busy = false;
  row.wanted = row.wanted || !then;
  const std::string reason = then ? "" : then.error().message;
  if (std::exchange(row.failed, reason) != reason && !then)
    log::warn("upkeep failed", {{"job", row.job.name}, {"reason", reason}});
  if (then && *then) (*then)();
  if (std::exchange(row.again, false) && !row.busy) begin(row);
  arm();
}

}  // namespace rung::bridge
