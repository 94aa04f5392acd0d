#include "src/bridge/upkeep/causes.h"

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr Ms kFoldEvery{1000};
constexpr Ms kReadCausesEvery{std::chrono::seconds{15}};
constexpr Ms kForgetCausesEvery{std::chrono::hours{1}};
// Changes of one transaction. A transaction of the flow leaves one for each of its causes, usually a few.
constexpr int kFoldAtOnce = 2000;
constexpr int kForgetCausesAtOnce = 1000;
// Every process has read the causes since.
constexpr Ms kForgetLater{std::chrono::hours{1}};

Result<Jobs::Then> fold(Store& store) {
  const auto folded = store.fold_causes(kFoldAtOnce);
  if (!folded) return tl::unexpected(folded.error());
  return [worse = folded->worse] {
    for (const CauseRow& row : worse) {
      log::warn(
          "an ignored cause got worse",
          {{"cause", row.id}, {"queue", row.queue}, {"last_hour", row.last_hour}, {"sample", row.sample}});
    }
  };
}

}  // namespace

Jobs::Id add_cause_jobs(Jobs& jobs, const DbClock& clock) {
  // On the lane of queries, whose connection is in use: that of upkeep would be opened for it each time.
  jobs.add({"read causes", kReadCausesEvery, Lane::sweeps, Jobs::Who::owners, [] {
              return Jobs::Work(
                  [](Store& store) { return store.read_causes().map([] { return Jobs::Then{}; }); });
            }});
  jobs.add({"forget causes", kForgetCausesEvery, Lane::upkeep, Jobs::Who::leader, [&clock] {
              return Jobs::Work([before = clock.now() - kCauseKept - kForgetLater](Store& store) {
                return store.forget_causes(before, kForgetCausesAtOnce).map([](int) { return Jobs::Then{}; });
              });
            }});
  return jobs.add(
      {"count causes", kFoldEvery, Lane::upkeep, Jobs::Who::leader, [] { return Jobs::Work(fold); }, true});
}

}  // namespace rung::bridge
