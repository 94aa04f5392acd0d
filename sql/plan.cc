#include "sql/plan.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace rung::sql {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kWork{"instant", "index", "rebuild", "copy"};

[[noreturn]] void broken(const std::string& what) {
  std::fprintf(stderr, "rung: sql/mysql/migrations/plan.json: %s\n", what.c_str());
  std::abort();
}

TableChange::Cost cost(const ordered_json& entry) {
  TableChange::Cost out;
  const auto work = std::ranges::find(kWork, entry.at("work").get<std::string>());
  if (work == kWork.end()) broken("unknown work " + entry.at("work").dump());
  out.work = static_cast<TableWork>(work - kWork.begin());
  out.seconds = entry.at("seconds").get<double>();
  return out;
}

void add(const ordered_json& entry, Migration& migration) {
  migration.what = entry.at("what").get<std::string>();
  migration.old_may_run = entry.at("older_sidecars_may_run").get<bool>();
  migration.old_note = entry.value("note", "");
  for (const auto& [table, costs] : entry.at("tables").items())
    migration.changes.push_back({table, cost(costs.at("mariadb")), cost(costs.at("mysql"))});
}

}  // namespace

std::string_view to_word(TableWork work) { return kWork[static_cast<std::size_t>(work)]; }

void add_plan(std::string_view json, std::vector<Migration>& migrations) {
  try {
    const ordered_json entries = ordered_json::parse(json).at("migrations");
    for (Migration& migration : migrations) add(entries.at(std::string(migration.name)), migration);
  } catch (const ordered_json::exception& e) {
    broken(e.what());
  }
}

}  // namespace rung::sql
