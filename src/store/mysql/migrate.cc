// migrate(), check_schema(), and the opening of a store.
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include "sql/sql.h"
#include "src/core/base/failpoint.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {
namespace {

constexpr std::chrono::seconds kLockStep{2};             // wait of one GET_LOCK, well within any read timeout
constexpr std::chrono::seconds kLockWait{60};            // for another process that migrates
constexpr std::chrono::minutes kStatement{5};            // read timeout: a disk may be slow
constexpr std::string_view kVersion = "schema_version";  // in rung_settings, when all is created
constexpr int kNoTable = 1146, kNoDefiner = 1449, kDefinerMayNot = 1356;

}  // namespace

int schema_version(Session& session) {
  try {
    return std::atoi(session.value<std::string>(render("setting", {{"name", kVersion}})).c_str());
  } catch (const DatabaseError& e) {
    if (e.code != kNoTable) throw;
    return 0;
  }
}

namespace {

// Throws StoreError for a schema made by a later version of Rung.
bool is_current(Session& session) {
  const int version = schema_version(session);
  if (version <= sql::kSchemaVersion) return version == sql::kSchemaVersion;
  throw StoreError(
      {Error::Kind::permanent,
       "the schema has version " + std::to_string(version) + ", this program knows up to " +
           std::to_string(sql::kSchemaVersion) +
           ": a newer rung has upgraded it; use that one, or restore the backup from before the upgrade"});
}

void take_lock(Session& session) {
  const BootMs give_up = session.clock().boot() + kLockWait;
  do {
    if (session.number(render("migration_lock", {{"wait_s", kLockStep.count()}})) == 1) return;
  } while (session.clock().boot() < give_up);
  throw StoreError({Error::Kind::transient, "another process is migrating the schema"});
}

// One that was interrupted is run again from its beginning.
std::string create(Session& session) {
  if (is_current(session)) return "";  // by another process meanwhile
  constexpr std::int64_t kDay = 24 * 3'600'000;
  const EpochMs after_tomorrow{(session.now().ms / kDay + 2) * kDay};
  for (const std::string& statement : sql::schema()) {
    session.exec(fill(statement, {{"bound", IdSource::floor(after_tomorrow)}}));
    failpoint("migrate.statement");
  }
  session.exec(render("setting_update", {{"name", kVersion}, {"value", sql::kSchemaVersion}}));
  return "schema";
}

// False: the user who created the views was dropped, or has lost a right; they run with that user's rights.
bool views_work(Session& session) {
  try {
    session.query(render("views_probe"));
    return true;
  } catch (const DatabaseError& e) {
    if (e.code != kNoDefiner && e.code != kDefinerMayNot) throw;
    return false;
  }
}

// With the rights of this user.
std::string create_views(Session& session) {
  for (const std::string& statement : sql::schema()) {
    if (statement.starts_with("CREATE OR REPLACE SQL SECURITY ")) session.exec(Sql::rendered(statement));
  }
  return "views";
}

}  // namespace

std::string MysqlStore::migrate() {
  if (!session_->has_database()) session_->create_database();
  // Nearly always there is nothing to do. Check with the normal timeouts: with the long one below, a
  // connection that dies just then would block a start for minutes.
  if (is_current(*session_)) return views_work(*session_) ? "" : create_views(*session_);
  // A connection of its own: it waits longer, and its end releases the lock whatever happens.
  Session session(session_->options(), session_->addresses(), kStatement);
  return session.hold([&] {
    take_lock(session);
    return create(session);
  });
}

void MysqlStore::check_schema() {
  const std::string advice = ": run `rung migrate`";
  if (!session_->has_database())
    throw StoreError({Error::Kind::refused, "the database '" + session_->schema() + "' is missing" + advice});
  if (!is_current(*session_)) throw StoreError({Error::Kind::permanent, "the schema is missing" + advice});
}

MysqlStore::MysqlStore(std::unique_ptr<Session> session)
    : TaskWriter(session->options().causes ? session->options().causes
                                           : std::make_shared<CauseBook>(session->options().cause_rules)),
      session_(std::move(session)) {}
MysqlStore::~MysqlStore() = default;

}  // namespace rung::mysql

namespace rung {

std::shared_ptr<Addresses> mysql_addresses(const StoreOptions& options, const Clock& clock) {
  if (options.addresses) return options.addresses;
  const auto wrong = [](const std::string& what) { return StoreError({Error::Kind::permanent, what}); };
  auto urls = parse_urls(options.url, options.other_urls);
  if (!urls) throw wrong("store.url: " + urls.error().message);
  for (const Url& url : *urls) {
    if (url.scheme != "mysql") throw wrong("store.url must begin with mysql://");
    if (url.path.empty()) throw wrong("store.url names no database: mysql://user@host:port/DATABASE");
    if (url.path != urls->front().path) throw wrong("store.urls: all must name the same database");
  }
  return std::make_shared<Addresses>(*std::move(urls), mysql::kUsualPort, Addresses::Order::listed, clock);
}

std::unique_ptr<MysqlStore> open_mysql_store(const StoreOptions& options, const Clock& clock, Ms silence) {
  auto addresses = mysql_addresses(options, clock);
  if (options.tls != "off" && options.tls != "verify")
    throw StoreError({Error::Kind::permanent, "store.tls must be off or verify"});
  auto session = std::make_unique<mysql::Session>(options, std::move(addresses), options.timeout, silence);
  session->connect();
  if (!session->has_database() && options.migrate) session->create_database();
  return std::make_unique<mysql::MysqlStore>(std::move(session));
}

}  // namespace rung
