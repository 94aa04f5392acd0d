// The storage interface of the bridge and the command line, split by role: code that needs one role depends
// on that role alone. mysql/ implements it for MySQL and MariaDB; tests/support/memory for tests.
//
// Thread: a Store is one connection, for one thread at a time. Every call blocks, is one transaction, and may
// be repeated after a transient error: writes are keyed (ids made by the caller) or guarded (decide()), so
// that a repeat after a lost answer changes nothing twice. Errors: transient = try again (server away,
// deadlock, lock wait); refused = the server answers, but the fault is the database's (a privilege or a table
// is missing, read-only): try again, and report it; permanent = about this row's data (too large, out of
// range). Opening a store, migrate() and check_schema() return permanent if a login or a privilege is
// refused, or the schema is newer.
#pragma once

#include <functional>
#include <memory>

#include "src/core/base/result.h"
#include "src/store/attachments.h"
#include "src/store/bulks.h"
#include "src/store/causes.h"
#include "src/store/counts.h"
#include "src/store/gates.h"
#include "src/store/leases.h"
#include "src/store/live.h"
#include "src/store/options.h"
#include "src/store/queries.h"
#include "src/store/retention.h"
#include "src/store/system.h"
#include "src/store/tasks.h"

namespace rung {

class Store : public TaskStore,
              public LeaseStore,
              public BulkStore,
              public GateStore,
              public AttachmentStore,
              public CauseStore,
              public CountStore,
              public RetentionStore,
              public QueryStore,
              public LiveStore,
              public SchemaStore,
              public SystemStore {};

// Opens a connection; called in the thread that will use it, and again after a transient error.
using StoreFactory = std::function<Result<std::unique_ptr<Store>>()>;

}  // namespace rung
