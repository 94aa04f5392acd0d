// The store in MySQL 8 and MariaDB 10.6+. Thread: as store.h says; the factory may be called from several
// threads.
#pragma once

#include <memory>

#include "src/core/base/clock.h"
#include "src/store/store.h"

namespace rung {

// The addresses from the options, to be shared by several stores. Permanent errors: not a database URL.
// REQUIRES: `clock` outlives them.
Result<std::shared_ptr<Addresses>> mysql_addresses(const StoreOptions& options, const Clock& clock);

// Connects. Creates the database if it is missing, options.migrate is set and the user has the privilege;
// only migrate() creates the tables. The next call reopens a broken connection, so a Store can be kept after
// a transient error.
//
// `clock` measures its waits, unless options.addresses are given, which have their own. REQUIRES: it outlives
// the store.
// `silence`: the server ends our session after this idle time (whole seconds, at least one), which frees its
// locks. Otherwise a process paused within a transaction would keep its leases' rows locked, and no instance
// could take them over. 0 = the server's own limit, often hours.
Result<std::unique_ptr<Store>> open_mysql_store(const StoreOptions& options, const Clock& clock,
                                                Ms silence = Ms{0});

}  // namespace rung
