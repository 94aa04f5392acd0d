// The store in MySQL 8 and MariaDB 10.6+. Thread: as store.h says; the factory may be called from several
// threads.
#pragma once

#include <memory>

#include "src/core/clock.h"
#include "src/store/store.h"

namespace rung {

// The addresses of the options, to be shared by several stores. Permanent errors: what is no database's URL.
// REQUIRES: `clock` outlives them.
Result<std::shared_ptr<Addresses>> mysql_addresses(const StoreOptions& options, const Clock& clock);

// Connects. Creates the database where it is missing, options.migrate is set and the user may; the tables are
// made by migrate() alone. A connection that breaks is made again by the next call, so a Store can be kept
// after a transient error.
//
// `clock` measures its waits, unless options.addresses are given, which have one. REQUIRES: it outlives the
// store.
// `silence`: the server ends a session of ours that says nothing for so long (whole seconds, at least one),
// and what it had locked is free. Without it a process that is paused within a transaction would keep its
// leases' rows locked, and nobody could take them over. 0 = the server's own limit, often hours.
Result<std::unique_ptr<Store>> open_mysql_store(const StoreOptions& options, const Clock& clock,
                                                Ms silence = Ms{0});

}  // namespace rung
