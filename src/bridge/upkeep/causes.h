// Upkeep of causes (src/store/causes.h): each second the leader adds the changes of their counts to
// rung_causes, and each hour deletes causes that nobody needs. Every instance reads the causes that the
// others have found. Thread: the loop's.
#pragma once

#include "src/bridge/leases/jobs.h"
#include "src/core/base/db_clock.h"

namespace rung::bridge {

// The job to want() when there are changes of counts to add.
Jobs::Id add_cause_jobs(Jobs& jobs, const DbClock& clock);

}  // namespace rung::bridge
