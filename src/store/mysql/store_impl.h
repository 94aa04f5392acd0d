// What the sources of MysqlStore share. Its methods are in the other files here, each named for its subject,
// and in reads.cc. Thread: of the session.
#pragma once

#include <array>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/store/mysql/columns.h"
#include "src/store/mysql/mysql_store.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {

inline constexpr auto kAllShards = [] {
  std::array<int, kShards> all{};
  std::iota(all.begin(), all.end(), 0);
  return all;
}();

// Inside Session::run().
ServerVariables read_variables(Session& session);

// The filter as SQL conditions, for a statement in which rung_tasks is t.
Sql conditions(const Filter& filter);

// Conditions for a column of the table or view t. same_text() distinguishes 'a' from 'a '.
template <typename T>
Sql equals(std::string_view column, const T& value) {
  return render("list.is", {{"column", Sql::identifier(column)}, {"value", value}});
}
inline Sql same_text(std::string_view column, std::string_view value) {
  return render("list.text", {{"column", Sql::identifier(column)}, {"value", value}});
}

// Inside run() or transaction(). `event.node` is ignored; `node`: of the instance, 0 = none.
void write_event(Session& session, const SystemEvent& event, int node = 0);

// The condition that the runner of the step still owns its bulk, and nobody else has done the step.
inline Sql if_ours(const BulkStep& step) {
  return render("bulk.if_ours", {{"bulk", step.bulk}, {"runner", step.runner}, {"from", step.from}});
}

// Inside a transaction. Whether this batch is the maker's latest of its kind: its answer was lost, and it is
// repeated. If not, it is the latest from now on. kind: "gates", "counts".
bool is_repeated(Session& session, std::string_view kind, const std::string& maker, const std::string& id);

// Inside run(). 0: there is no schema, or it was not finished.
int schema_version(Session& session);

// The condition that the attempt c is a short claim of the row t.
inline Sql short_claim() { return render("short_claim"); }

}  // namespace rung::mysql
