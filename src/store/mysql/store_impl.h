// What MysqlStore's sources share. Its methods are in the other files here, each named for its subject, and
// in reads.cc. Thread: of the session.
#pragma once

#include <string>

#include "src/store/mysql/mysql_store.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/session.h"
#include "src/store/mysql/tables.h"

namespace rung::mysql {

// Inside Session::run(): a row of `list`.
TaskRow task_row_at(const ::sql::ResultSet& row);
// Inside Session::run().
ServerVariables read_variables(Session& session);

// The filter as SQL conditions, for a statement in which rung_tasks is t. Begins with a blank, or is empty.
std::string conditions(const Filter& filter);

// Inside run() or transaction(). `event.node` is ignored; `node`: of the instance, 0 = none.
void write_event(Session& session, const SystemEvent& event, int node = 0);

// Inside a transaction. Whether this batch is the maker's latest of its kind: its answer was lost, and it is
// repeated. If not, it is the latest from now on. kind: "gates", "counts".
bool is_repeated(Session& session, std::string_view kind, const std::string& maker, const std::string& id);
void forget_batches(Session& session, std::string_view kind, EpochMs before);

// Inside run(). 0: there is no schema, or it was not finished.
int schema_version(Session& session);

// Inside a transaction: writes the changes. `node`: of the instance, for the events of new causes.
void write_causes(Session& session, const CauseChanges& changes, int node, EpochMs now);

}  // namespace rung::mysql
