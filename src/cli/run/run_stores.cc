#include "src/cli/run/run_stores.h"

#include <algorithm>
#include <utility>

#include "src/io/log.h"
#include "src/store/mysql/migrations.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::cli {
namespace {

// All our connections use one address.
StoreOptions with_one_address(StoreOptions options, const Clock& clock) {
  options.causes = std::make_shared<CauseBook>();
  auto addresses = mysql_addresses(options, clock);
  if (!addresses) return options;  // open() reports why
  options.addresses = *std::move(addresses);
  options.addresses->on_change([](const std::string& address, const std::string& passed_over) {
    if (passed_over.empty()) return log::info("database connected", {{"address", address}});
    log::warn("database connected", {{"address", address}, {"passed_over", passed_over}});
  });
  return options;
}

void warn_of_risks(SystemStore& store) {
  const auto variables = store.server_variables();
  if (!variables) return;  // `rung doctor` reports why
  for (const ServerRisk& risk : server_risks(*variables))
    log::warn("risky database server setting", {{"check", risk.name}, {"is", risk.what}, {"mend", risk.fix}});
}

}  // namespace

RunStores::RunStores(StoreOptions options, const Clock& clock, Ms silence,
                     std::function<void(const std::string&)> fatal)
    : options_(with_one_address(std::move(options), clock)),
      clock_(clock),
      silence_(silence),
      fatal_(std::move(fatal)) {}

Result<std::unique_ptr<Store>> RunStores::open() {
  return checked(open_mysql_store(options_, clock_, silence_));
}

Result<std::unique_ptr<Store>> RunStores::open_reader(Ms timeout) {
  StoreOptions options = options_;
  options.timeout = std::max(std::min(options.timeout, timeout), Ms{1000});
  return checked(open_mysql_store(options, clock_));
}

Result<std::unique_ptr<Store>> RunStores::checked(Result<std::unique_ptr<Store>> store) {
  if (!store) return store;
  const std::lock_guard lock(mutex_);
  if (ready_) return store;
  if (auto made = prepare(**store); !made) {
    // A missing right may be granted while we wait; start.wait limits the wait.
    if (!made.error().is_transient()) fatal_(made.error().message);
    return tl::unexpected(made.error());
  }
  ready_ = true;
  return store;
}

Result<void> RunStores::prepare(Store& store) const {
  warn_of_risks(store);
  if (!options_.migrate) return store.check_schema();
  if (store.check_schema()) return {};
  const auto applied =
      apply_migrations(options_, clock_, [](std::string_view migration, std::optional<Ms> took) {
        if (!took) return log::info("schema migration begins", {{"migration", migration}});
        log::info("schema migrated", {{"migration", migration}, {"took_ms", took->count()}});
      });
  if (!applied) return tl::unexpected(applied.error());
  return {};
}

}  // namespace rung::cli
