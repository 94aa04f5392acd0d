// rung migrate: applies the migrations that are missing, or prints them with --plan.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/store/mysql/migrations.h"

namespace rung::cli {
namespace {

using sql::TableWork;

struct MigrateOptions {
  Common common;
  bool plan = false;
};

bool writes_wait(TableWork work) { return work == TableWork::copy; }

std::string sentence(TableWork work) {
  switch (work) {
    case TableWork::instant:
      return "only its description changes";
    case TableWork::index:
      return "an index is built, writes go on";
    case TableWork::rebuild:
      return "it is written anew, writes go on";
    case TableWork::copy:
      break;
  }
  return "it is copied, writes wait";
}

std::string about(double time_s) {
  if (time_s < 1) return "less than 1 s";
  return "about " + humanise(std::chrono::seconds{static_cast<std::int64_t>(time_s + 0.5)});
}

std::string megabytes(std::int64_t bytes) { return grouped((bytes + (1 << 20) - 1) >> 20) + " MB"; }

std::string older_sidecars(const sql::Migration& migration) {
  std::string text = migration.old_may_run ? "may keep running" : "stop them first";
  if (!migration.old_note.empty()) text += (migration.old_may_run ? "; " : ": ") + migration.old_note;
  return text;
}

struct Totals {
  double seconds = 0, waiting = 0;  // waiting: of them, writes to a table wait
  std::int64_t disk_bytes = 0;      // the most that one table needs: they are changed one after the other
  bool old_may_run = true;
};

Totals totals(const MigrationPlan& plan) {
  Totals all;
  for (const PlannedMigration& one : plan.pending) {
    all.old_may_run = all.old_may_run && one.migration->old_may_run;
    for (const PlannedChange& change : one.changes) {
      all.seconds += change.seconds;
      if (writes_wait(change.work)) all.waiting += change.seconds;
      all.disk_bytes = std::max(all.disk_bytes, change.disk_bytes);
    }
  }
  return all;
}

std::string text(const MigrationPlan& plan) {
  std::string out = fmt::format("{}; the schema has version {}, this program needs version {}\n", plan.server,
                                plan.version, sql::newest_version());
  if (plan.pending.empty()) return out + "schema is up to date: nothing to apply\n";
  for (const PlannedMigration& one : plan.pending) {
    out += fmt::format("\n{}: {}\n", one.migration->name, one.migration->what);
    for (const PlannedChange& change : one.changes) {
      out += fmt::format("  {}, about {} rows: {}; {}", change.table, grouped(change.rows),
                         sentence(change.work), about(change.seconds));
      if (change.seconds_per_million >= 1)
        out += fmt::format(" ({:g} s for a million rows)", change.seconds_per_million);
      if (change.disk_bytes > 0) out += "; needs " + megabytes(change.disk_bytes) + " of disk";
      out += "\n";
    }
    out += "  older sidecars: " + older_sidecars(*one.migration) + "\n";
  }
  const Totals all = totals(plan);
  out += "\ntime: " + about(all.seconds);
  out += all.waiting >= 1
             ? ", of them writes wait for " + humanise(Ms{static_cast<std::int64_t>(all.waiting * 1000)})
             : ", writes do not wait";
  out += "\ndisk: " +
         (all.disk_bytes > 0 ? megabytes(all.disk_bytes) + " free" : std::string("no more than now"));
  out += all.old_may_run
             ? "\nolder sidecars: may keep running, but cannot be started again after the migration\n"
             : "\nolder sidecars: stop all of them first\n";
  return out + "nothing was changed; to apply: rung migrate\n";
}

Json to_json(const PlannedChange& change) {
  return {{"table", change.table},
          {"work", sql::to_word(change.work)},
          {"writes_wait", writes_wait(change.work)},
          {"rows", change.rows},
          {"seconds_per_million_rows", change.seconds_per_million},
          {"seconds", change.seconds},
          {"disk_bytes", change.disk_bytes}};
}

Json to_json(const MigrationPlan& plan) {
  Json pending = Json::array();
  for (const PlannedMigration& one : plan.pending) {
    Json tables = Json::array();
    for (const PlannedChange& change : one.changes) tables.push_back(to_json(change));
    const std::string& note = one.migration->old_note;
    pending.push_back({{"migration", one.migration->name},
                       {"what", one.migration->what},
                       {"older_sidecars_may_run", one.migration->old_may_run},
                       {"note", api::text_or_null(note)},
                       {"tables", std::move(tables)}});
  }
  const Totals all = totals(plan);
  return {{"server", plan.server},
          {"schema_version", plan.version},
          {"program_version", sql::newest_version()},
          {"pending", std::move(pending)},
          {"seconds", all.seconds},
          {"seconds_writes_wait", all.waiting},
          {"disk_bytes", all.disk_bytes},
          {"older_sidecars_may_run", all.old_may_run}};
}

int print_plan(const StoreOptions& options, const Clock& clock, bool json) {
  const auto plan = plan_migrations(options, clock);
  if (!plan) return report_error(plan.error());
  print(json ? dump(to_json(*plan)) + "\n" : text(*plan));
  return kSuccess;
}

int apply(const StoreOptions& options, const Clock& clock, bool json) {
  // A line at once: on a big database a migration may take long.
  const auto applied =
      apply_migrations(options, clock, [&](std::string_view migration, std::optional<Ms> took) {
        if (json) return;
        if (took) return print("applied " + one_line(migration) + " (" + humanise(*took) + ")\n");
      });
  if (!applied) return report_error(applied.error());
  if (json) return print_json(Json{{"applied", *applied}});
  print(applied->empty() ? "schema is up to date\n" : "schema is now up to date\n");
  return kSuccess;
}

int migrate(const MigrateOptions& options) {
  Config config;
  if (const int code = load(options.common, config, ConfigFor::database); code != kSuccess) return code;
  config.store.migrate = !options.plan;  // store.migrate only concerns `rung run`
  const SystemClock clock;
  return options.plan ? print_plan(config.store, clock, options.common.json)
                      : apply(config.store, clock, options.common.json);
}

}  // namespace

void add_migrate(CLI::App& app, int* exit) {
  auto options = std::make_shared<MigrateOptions>();
  CLI::App& c = add_command(
      app, "migrate", "Creates or upgrades the tables and views",
      "Examples:\n"
      "  rung migrate --plan              what would be applied, and how long that takes\n"
      "  rung migrate -c rung.yaml\n"
      "Safe to repeat and to run concurrently. `rung run` migrates on its own unless store.migrate is false.",
      options->common);
  c.add_flag("--plan", options->plan,
             "Print the missing migrations with their estimated time, and apply nothing");
  c.callback([options, exit] { *exit = migrate(*options); });
}

}  // namespace rung::cli
