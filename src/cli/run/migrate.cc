// rung migrate: creates the tables and views.
#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::cli {
namespace {

int migrate(const Common& common) {
  Config config;
  if (const int code = load(common, config, ConfigFor::database); code != kSuccess) return code;
  config.store.migrate = true;  // store.migrate only concerns `rung run`
  const SystemClock clock;
  const auto store = open_mysql_store(config.store, clock);
  if (!store) return report_error(store.error());
  const auto created = (*store)->migrate();
  if (!created) return report_error(created.error());
  if (common.json) return print_json(Json{{"created", *created}});
  print(created->empty() ? "schema is up to date\n" : *created + " created\n");
  return kSuccess;
}

}  // namespace

void add_migrate(CLI::App& app, int* exit) {
  auto common = std::make_shared<Common>();
  CLI::App& c = add_command(
      app, "migrate", "Creates the tables and views",
      "Examples:\n"
      "  rung migrate -c rung.yaml\n"
      "Safe to repeat and to run concurrently. `rung run` migrates on its own unless store.migrate is false.",
      *common);
  c.callback([common, exit] { *exit = migrate(*common); });
}

}  // namespace rung::cli
