// migrate(), check_schema(), plan_migrations(), apply_migrations(), and the opening of a store.
#include <algorithm>
#include <chrono>
#include <map>

#include "sql/sql.h"
#include "src/core/base/failpoint.h"
#include "src/store/mysql/migrations.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr std::chrono::seconds kLockStep{2};   // wait of one GET_LOCK, well within any read timeout
constexpr std::chrono::seconds kLockWait{60};  // for another process that migrates
// For a table. Meanwhile every other session waits for it too: shorter than the sidecars' store.timeout.
constexpr std::chrono::seconds kTableWait{5};
constexpr std::chrono::hours kMigration{6};  // read timeout of one statement: an ALTER of a big table is slow
constexpr int kNoTable = 1146, kColumnIsThere = 1060, kIndexIsThere = 1061, kColumnIsGone = 1091,
              kTableDenied = 1142;
constexpr int kNoDefiner = 1449, kDefinerMayNot = 1356;

std::vector<int> applied_versions(Session& session) {
  std::vector<int> versions;
  auto row = session.query(render("schema_versions"));
  while (row->next()) versions.push_back(row->getInt(1));
  return versions;
}

// REQUIRES: inside run(). None if there is no schema yet.
std::vector<int> versions_if_any(Session& session) {
  try {
    return applied_versions(session);
  } catch (const ::sql::SQLException& e) {
    if (e.getErrorCode() != kNoTable) throw;
    return {};
  }
}

// The first migration that is missing.
const sql::Migration* first_missing(const std::vector<int>& versions) {
  const auto& all = sql::migrations();
  const auto it = std::ranges::find_if(all, [&](const sql::Migration& migration) {
    return std::ranges::find(versions, migration.version) == versions.end();
  });
  return it == all.end() ? nullptr : &*it;
}

// REQUIRES: inside run(). Throws Abort for a schema made by a later version of Rung.
void refuse_newer(const std::vector<int>& versions) {
  if (versions.empty() || versions.back() <= sql::newest_version()) return;
  throw Abort{
      {Error::Kind::permanent,
       "the schema has version " + std::to_string(versions.back()) + ", this program knows up to " +
           std::to_string(sql::newest_version()) +
           ": a newer rung has upgraded it; use that one, or restore the backup from before the upgrade"}};
}

void lock(Session& session) {
  const BootMs give_up = session.clock().boot() + kLockWait;
  do {
    auto row = session.query(render("migration_lock", {{"wait_s", Literal::number(kLockStep.count())}}));
    if (row->next() && row->getInt(1) == 1) return;
  } while (session.clock().boot() < give_up);
  throw Abort{{Error::Kind::transient, "another process is migrating the schema"}};
}

// An interrupted migration is run again from its beginning. MySQL has no ADD COLUMN IF NOT EXISTS.
void exec_again(Session& session, const sql::Migration& migration, const std::string& statement) {
  try {
    session.exec(statement);
  } catch (const ::sql::SQLException& e) {
    if (e.getErrorCode() == kLockWaitOver) {
      throw Abort{{Error::Kind::transient,
                   "migration " + std::string(migration.name) +
                       ": another connection has used a table for longer than " +
                       std::to_string(kTableWait.count()) +
                       " s (a report, a dump?): end it or wait for it, then run `rung migrate` again"}};
    }
    if (e.getErrorCode() != kColumnIsThere && e.getErrorCode() != kIndexIsThere &&
        e.getErrorCode() != kColumnIsGone)
      throw;
  }
}

std::vector<std::string> upgrade(Session& session, const OnMigration& tell) {
  session.exec(render("schema_table"));
  const std::vector<int> versions = applied_versions(session);
  refuse_newer(versions);
  std::vector<std::string> applied;
  for (const auto& migration : sql::migrations()) {
    if (std::find(versions.begin(), versions.end(), migration.version) != versions.end()) continue;
    tell(migration.name, std::nullopt);
    const BootMs began = session.clock().boot();
    for (const std::string& statement : migration.statements) {
      exec_again(session, migration, statement);
      failpoint("migrate.statement");
    }
    session.exec(render("schema_applied", {{"version", Literal::number(migration.version)},
                                           {"name", Literal::text(migration.name)}}));
    tell(migration.name, session.clock().boot() - began);
    applied.emplace_back(migration.name);
  }
  return applied;
}

// False: the user who created the views was dropped, or has lost a right; they run with that user's rights.
bool views_work(Session& session) {
  try {
    session.query(render("views_probe"));
    return true;
  } catch (const ::sql::SQLException& e) {
    if (e.getErrorCode() != kNoDefiner && e.getErrorCode() != kDefinerMayNot) throw;
    return false;
  }
}

// Creates all views again, each as its last migration does, with the rights of this user.
std::vector<std::string> create_views(Session& session) {
  constexpr std::string_view kBegin = "CREATE OR REPLACE SQL SECURITY ", kView = " VIEW ";
  std::map<std::string_view, std::string_view> views;  // by name
  for (const auto& migration : sql::migrations()) {
    for (const std::string_view statement : migration.statements) {
      const auto view = statement.find(kView);
      if (!statement.starts_with(kBegin) || view == std::string_view::npos) continue;
      const std::string_view rest = statement.substr(view + kView.size());
      views[rest.substr(0, rest.find_first_of(" \n"))] = statement;
    }
  }
  for (const auto& [name, statement] : views) session.exec(std::string(statement));
  return {"views"};
}

struct TableSize {
  std::int64_t rows = 0, bytes = 0;  // with its indexes
  std::int64_t bytes_per_index = 0;  // on average, without the primary key
};

// Estimates of the server, by table.
std::map<std::string, TableSize> table_sizes(Session& session, bool mariadb) {
  if (!mariadb) session.exec(render("fresh_table_sizes"));
  std::map<std::string, TableSize> sizes;
  auto row = session.query(render("table_sizes"));
  while (row->next()) {
    const std::int64_t data = row->getInt64(3), index = row->getInt64(4);
    sizes[text_at(*row, 1)] = {row->getInt64(2), data + index,
                               index / std::max<std::int64_t>(row->getInt64(5), 1)};
  }
  return sizes;
}

PlannedChange plan_of(const sql::TableChange& change, const TableSize& size, bool mariadb) {
  const sql::TableChange::Cost& cost = mariadb ? change.mariadb : change.mysql;
  const double millions = cost.work == sql::TableWork::instant ? 1 : static_cast<double>(size.rows) / 1e6;
  PlannedChange planned{change.table, cost.work, size.rows, cost.seconds, cost.seconds * millions, 0};
  if (cost.work == sql::TableWork::index) planned.disk_bytes = size.bytes_per_index;
  if (cost.work == sql::TableWork::rebuild || cost.work == sql::TableWork::copy)
    planned.disk_bytes = size.bytes;
  return planned;
}

MigrationPlan make_plan(Session& session) {
  MigrationPlan plan;
  const std::string version = read_variables(session)["version"];
  const bool mariadb = version.find("MariaDB") != std::string::npos;
  plan.server = (mariadb ? "MariaDB " : "MySQL ") + version.substr(0, version.find('-'));
  std::vector<int> versions;
  std::map<std::string, TableSize> sizes;
  if (session.has_database()) {
    versions = versions_if_any(session);
    refuse_newer(versions);
    sizes = table_sizes(session, mariadb);
  }
  if (!versions.empty()) plan.version = versions.back();
  for (const sql::Migration& migration : sql::migrations()) {
    if (std::ranges::find(versions, migration.version) != versions.end()) continue;
    PlannedMigration& planned = plan.pending.emplace_back();
    planned.migration = &migration;
    for (const sql::TableChange& change : migration.changes)
      planned.changes.push_back(plan_of(change, sizes[change.table], mariadb));
  }
  return plan;
}

Result<std::vector<std::string>> migrate(Session& checked, const OnMigration& tell) {
  if (!checked.has_database()) {
    if (auto made = checked.create_database(); !made) return tl::unexpected(made.error());
  }
  // Nearly always there is nothing to do. Check with the normal timeouts: with the long ones below, a
  // connection that dies just then would block a start for hours.
  const auto up_to_date = checked.run_for([&] {
    const std::vector<int> versions = versions_if_any(checked);
    refuse_newer(versions);
    return first_missing(versions) == nullptr;
  });
  if (!up_to_date) return tl::unexpected(up_to_date.error());
  if (*up_to_date) {
    return checked.run_for([&] {
      std::vector<std::string> mended;
      if (!views_work(checked)) mended = create_views(checked);
      return mended;
    });
  }
  // A connection of its own: it waits longer, and its end releases the lock whatever happens.
  Session session(checked.options(), checked.addresses(), kMigration);
  return session.run_for([&] {
    lock(session);
    session.exec(render("migration_table_wait", {{"wait_s", Literal::number(kTableWait.count())}}));
    std::vector<std::string> applied = upgrade(session, tell);
    session.query(render("migration_unlock"));
    return applied;
  });
}

}  // namespace

Result<std::vector<std::string>> MysqlStore::migrate() {
  return mysql::migrate(*session_, [](std::string_view /*migration*/, std::optional<Ms> /*took*/) {});
}

Result<void> MysqlStore::check_schema() {
  const std::string advice = ": run `rung migrate`";
  if (!session_->has_database()) {
    return tl::unexpected(
        Error{Error::Kind::refused, "the database '" + session_->schema() + "' is missing" + advice});
  }
  return session_->run([&] {
    std::vector<int> versions;
    try {
      versions = versions_if_any(*session_);
    } catch (const ::sql::SQLException& e) {
      if (e.getErrorCode() != kTableDenied) throw;
      by_views_ = true;  // a reader: the views are a contract, whatever the version
      return;
    }
    refuse_newer(versions);
    if (const sql::Migration* missing = first_missing(versions)) {
      throw Abort{
          {Error::Kind::permanent, "the schema lacks migration " + std::string(missing->name) + advice}};
    }
  });
}

}  // namespace rung::mysql

namespace rung {
namespace {

Result<std::unique_ptr<mysql::Session>> connect(const StoreOptions& options, const Clock& clock,
                                                Ms silence = Ms{0}) {
  auto addresses = options.addresses ? options.addresses : mysql_addresses(options, clock);
  if (!addresses) return tl::unexpected(addresses.error());
  if (options.tls != "off" && options.tls != "verify") return permanent("store.tls must be off or verify");
  auto session = std::make_unique<mysql::Session>(options, *addresses, options.timeout, silence);
  if (auto connected = session->connect(); !connected) return tl::unexpected(connected.error());
  return session;
}

}  // namespace

Result<MigrationPlan> plan_migrations(const StoreOptions& options, const Clock& clock) {
  auto session = connect(options, clock);
  if (!session) return tl::unexpected(session.error());
  return (*session)->run_for([&] { return mysql::make_plan(**session); });
}

Result<std::vector<std::string>> apply_migrations(const StoreOptions& options, const Clock& clock,
                                                  const OnMigration& tell) {
  auto session = connect(options, clock);
  if (!session) return tl::unexpected(session.error());
  return mysql::migrate(**session, tell);
}

Result<std::shared_ptr<Addresses>> mysql_addresses(const StoreOptions& options, const Clock& clock) {
  auto urls = parse_urls(options.url, options.other_urls);
  if (!urls) return permanent("store.url: " + urls.error().message);
  for (const Url& url : *urls) {
    if (url.scheme != "mysql") return permanent("store.url must begin with mysql://");
    if (url.path.empty()) return permanent("store.url names no database: mysql://user@host:port/DATABASE");
    if (url.path != urls->front().path) return permanent("store.urls: all must name the same database");
  }
  return std::make_shared<Addresses>(*std::move(urls), mysql::kUsualPort, Addresses::Order::listed, clock);
}

Result<std::unique_ptr<Store>> open_mysql_store(const StoreOptions& options, const Clock& clock, Ms silence) {
  auto session = connect(options, clock, silence);
  if (!session) return tl::unexpected(session.error());
  if (!(*session)->has_database() && options.migrate) {
    if (auto made = (*session)->create_database(); !made) return tl::unexpected(made.error());
  }
  return std::make_unique<mysql::MysqlStore>(*std::move(session));
}

}  // namespace rung
