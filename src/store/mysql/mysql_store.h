// The store in MySQL 8 and MariaDB 10.6+. Thread: as store.h says; the factory may be called from several
// threads.
#pragma once

#include <memory>

#include "src/store/store.h"

namespace rung {

// Connects. Creates the database where it is missing, options.migrate is set and the user may; the tables are
// made by migrate() alone. A connection that breaks is made again by the next call, so a Store can be kept
// after a transient error.
Result<std::unique_ptr<Store>> open_mysql_store(const StoreOptions& options);

}  // namespace rung
