// migrate(), check_schema(), and the opening of a store.
#include <algorithm>
#include <chrono>

#include "sql/sql.h"
#include "src/core/failpoint.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr std::chrono::seconds kLockStep{2};   // wait of one GET_LOCK, well within any read timeout
constexpr std::chrono::seconds kLockWait{60};  // for another process that migrates
constexpr std::chrono::hours kMigration{6};  // read timeout of one statement: an ALTER of a big table is slow
constexpr int kNoTable = 1146, kColumnIsThere = 1060, kIndexIsThere = 1061;

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
  throw Abort{{Error::Kind::permanent,
               "the schema has version " + std::to_string(versions.back()) + ", this program knows up to " +
                   std::to_string(sql::newest_version()) + ": a newer rung has upgraded it, use that one"}};
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
void exec_again(Session& session, const std::string& statement) {
  try {
    session.exec(statement);
  } catch (const ::sql::SQLException& e) {
    if (e.getErrorCode() != kColumnIsThere && e.getErrorCode() != kIndexIsThere) throw;
  }
}

std::vector<std::string> upgrade(Session& session) {
  session.exec(render("schema_table"));
  const std::vector<int> versions = applied_versions(session);
  refuse_newer(versions);
  std::vector<std::string> applied;
  for (const auto& migration : sql::migrations()) {
    if (std::find(versions.begin(), versions.end(), migration.version) != versions.end()) continue;
    for (const std::string& statement : migration.statements) {
      exec_again(session, statement);
      failpoint("migrate.statement");
    }
    session.exec(render("schema_applied", {{"version", Literal::number(migration.version)},
                                           {"name", Literal::text(migration.name)}}));
    applied.emplace_back(migration.name);
  }
  return applied;
}

}  // namespace

Result<std::vector<std::string>> MysqlStore::migrate() {
  if (!session_->has_database()) {
    if (auto made = session_->create_database(); !made) return tl::unexpected(made.error());
  }
  // Nearly always there is nothing to do. Check with the normal timeouts: with the long ones below, a
  // connection that dies just then would block a start for hours.
  const auto up_to_date = session_->run_for([&] {
    const std::vector<int> versions = versions_if_any(*session_);
    refuse_newer(versions);
    return first_missing(versions) == nullptr;
  });
  if (!up_to_date) return tl::unexpected(up_to_date.error());
  if (*up_to_date) return std::vector<std::string>{};
  // A connection of its own: it waits longer, and its end releases the lock whatever happens.
  Session session(session_->options(), session_->addresses(), kMigration);
  return session.run_for([&] {
    lock(session);
    std::vector<std::string> applied = upgrade(session);
    session.query(render("migration_unlock"));
    return applied;
  });
}

Result<void> MysqlStore::check_schema() {
  const std::string advice = ": run `rung migrate`";
  if (!session_->has_database()) {
    return tl::unexpected(
        Error{Error::Kind::refused, "the database '" + session_->schema() + "' is missing" + advice});
  }
  return session_->run([&] {
    const std::vector<int> versions = versions_if_any(*session_);
    refuse_newer(versions);
    if (const sql::Migration* missing = first_missing(versions)) {
      throw Abort{
          {Error::Kind::permanent, "the schema lacks migration " + std::string(missing->name) + advice}};
    }
  });
}

}  // namespace rung::mysql

namespace rung {

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
  auto addresses = options.addresses ? options.addresses : mysql_addresses(options, clock);
  if (!addresses) return tl::unexpected(addresses.error());
  if (options.tls != "off" && options.tls != "verify") return permanent("store.tls must be off or verify");
  auto session = std::make_unique<mysql::Session>(options, *addresses, options.timeout, silence);
  if (auto connected = session->connect(); !connected) return tl::unexpected(connected.error());
  if (!session->has_database() && options.migrate) {
    if (auto made = session->create_database(); !made) return tl::unexpected(made.error());
  }
  return std::make_unique<mysql::MysqlStore>(std::move(session));
}

}  // namespace rung
