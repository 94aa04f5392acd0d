// Whether this database and this broker belong together (docs/operations.md).
#include <memory>

#include "plugin/rabbitmq/topology/probe.h"
#include "src/cli/doctor/doctor.h"
#include "src/store/mysql/mysql_store.h"
#include "src/store/ownership.h"

namespace rung::cli {
namespace {

constexpr const char* kName = "ownership";
constexpr const char* kFix = "correct broker or store in the config; if they do belong together: rung adopt";

struct Known {
  Ownership ownership;
  std::size_t live = 0;
};

Result<Known> read_database(const Config& config, const Clock& clock) {
  StoreOptions options = config.store;
  options.migrate = false;
  options.timeout = kDoctorTimeout;
  auto store = open_mysql_store(options, clock);
  if (!store) return tl::unexpected(store.error());
  if (auto good = (*store)->check_schema(); !good) return tl::unexpected(good.error());
  auto ownership = look_at_ownership(**store);
  if (!ownership) return tl::unexpected(ownership.error());
  const auto live = (*store)->live_nodes();
  if (!live) return tl::unexpected(live.error());
  return Known{*std::move(ownership), live->size()};
}

Finding judge(const Known& known, const PlaceReport& report) {
  const Ownership& ownership = known.ownership;
  if (const std::string why = conflict(ownership, report); !why.empty()) return wrong(kName, why, kFix);
  if (!report.problem.empty())
    return warning(kName, "cannot be checked: " + report.problem, "grant the rights in docs/permissions.md");
  if (const std::string why = shared(report, known.live); !why.empty())
    return wrong(kName, why, "rung adopt --yes");
  if (!ownership.serves) {
    return good(kName,
                "this database serves no broker yet; rung run makes it serve " + describe(report.place));
  }
  return good(kName, "this database serves " + describe(report.place) +
                         (report.owner.empty() ? "; rung run marks the broker again" : ""));
}

}  // namespace

Findings check_ownership(const Config& config, const Clock& clock) {
  const auto known = read_database(config, clock);
  if (!known) return {skipped(kName, "the database or its schema is not available")};
  auto probe = rabbit::Probe::open(config.broker, clock, kDoctorTimeout);
  if (!probe) return {skipped(kName, "the broker is not available")};
  // A database that has no id yet has no mark either.
  const std::string id = known->ownership.database.empty() ? "none" : known->ownership.database;
  const auto report = (*probe)->owner(config.broker, {id, false});
  if (!report) return {skipped(kName, "the broker does not answer: " + report.error().message)};
  return {judge(*known, *report)};
}

}  // namespace rung::cli
