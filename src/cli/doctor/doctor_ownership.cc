// Whether this database and this broker belong together (docs/ownership.md).
#include <memory>

#include "plugin/rabbitmq/topology/probe.h"
#include "src/cli/doctor/doctor.h"
#include "src/store/mysql/mysql_store.h"
#include "src/store/ownership.h"

namespace rung::cli {
namespace {

constexpr const char* kName = "ownership";
constexpr const char* kFix = "correct broker or store in the config; if they do belong together: rung adopt";

Result<Ownership> read_database(const Config& config, const Clock& clock) {
  StoreOptions options = config.store;
  options.migrate = false;
  options.timeout = kDoctorTimeout;
  auto store = open_mysql_store(options, clock);
  if (!store) return tl::unexpected(store.error());
  if (auto good = (*store)->check_schema(); !good) return tl::unexpected(good.error());
  return look_at_ownership(**store);
}

Finding judge(const Ownership& ownership, const PlaceReport& report) {
  if (const std::string why = conflict(ownership, report); !why.empty()) return wrong(kName, why, kFix);
  if (!report.problem.empty())
    return warning(kName, "cannot be checked: " + report.problem, "grant the rights in docs/permissions.md");
  if (!ownership.serves) {
    return good(kName,
                "this database serves no broker yet; rung run makes it serve " + describe(report.place));
  }
  return good(kName, "this database serves " + describe(report.place) +
                         (report.owner.empty() ? "; rung run marks the broker again" : ""));
}

}  // namespace

Findings check_ownership(const Config& config, const Clock& clock) {
  const auto ownership = read_database(config, clock);
  if (!ownership) return {skipped(kName, "the database or its schema is not available")};
  auto probe = rabbit::Probe::open(config.broker, clock, kDoctorTimeout);
  if (!probe) return {skipped(kName, "the broker is not available")};
  // A database that has no id yet has no mark either.
  const std::string id = ownership->database.empty() ? "none" : ownership->database;
  const auto report = (*probe)->owner(config.broker, {id, false});
  if (!report) return {skipped(kName, "the broker does not answer: " + report.error().message)};
  return {judge(*ownership, *report)};
}

}  // namespace rung::cli
