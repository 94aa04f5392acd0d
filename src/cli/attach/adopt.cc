// rung adopt: says that the config's broker and database belong together from now on.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "src/api/base/message.h"
#include "src/cli/attach/attach.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/options.h"
#include "src/cli/shared/task_text.h"

namespace rung::cli {
namespace {

constexpr Ms kBrokerTimeout{std::chrono::seconds{10}};

std::string owner_text(const Sides& sides) {
  if (sides.report.owner.empty()) return "no database";
  if (sides.report.owner == sides.ownership.database) return "this database";
  return sides.report.owner == kUnknownOwner ? "another database" : "database " + sides.report.owner;
}

std::string text(const Sides& sides) {
  const auto& serves = sides.ownership.serves;
  return fmt::format(
      "this database{} serves: {}\nthe config names: {}\nthere the broker is marked as served by: {}\n"
      "instances that use this database now: {}\n",
      sides.is_new() ? "" : " (id " + sides.ownership.database + ")",
      serves ? describe(*serves) : "nothing yet", describe(sides.report.place), owner_text(sides),
      sides.instances.empty() ? "none" : fmt::format("{}", fmt::join(sides.instances, ", ")));
}

Json place_json(const BrokerPlace& place) {
  return {{"broker", place.cluster}, {"virtual_host", place.space}, {"prefix", place.prefix}};
}

Json to_json(const Sides& sides, bool changed) {
  const auto& serves = sides.ownership.serves;
  return {{"database_id", api::text_or_null(sides.ownership.database)},
          {"serves", serves ? place_json(*serves) : Json()},
          {"config", place_json(sides.report.place)},
          {"marked_as", api::text_or_null(sides.report.owner)},
          {"instances", sides.instances},
          {"fits", conflict(sides.ownership, sides.report).empty()},
          {"changed", changed}};
}

void change(MysqlStore& store, rabbit::Probe& probe, const BrokerOptions& broker, const Sides& before) {
  const std::string id = change_ownership(store, before.report.place);
  need(probe.remove_mark(broker));
  const auto marked = need(probe.owner(broker, {id, true}));
  if (marked.owner != id)
    throw Failed({Error::Kind::transient,
                  "another database has just marked the broker: stop its sidecars, then run this again" +
                      marked.problem});
  const std::string detail =
      cli_user() + ": this database serves " + describe(before.report.place) +
      "; before: " + (before.ownership.serves ? describe(*before.ownership.serves) : "nothing") +
      "; the broker was marked as served by " + owner_text(before);
  store.record_event(0, {"ownership_changed", broker.prefix, detail});
}

int adopt(const CLI::App& c) {
  const Config config = load(ConfigFor::sidecar);
  const SystemClock clock;
  const auto store = open_store(config.store, clock);
  const auto probe = need(rabbit::Probe::open(config.broker, clock, kBrokerTimeout));
  const Sides sides = look_at_both(*store, *probe, config.broker);
  if (!sides.report.problem.empty()) throw Failed({Error::Kind::refused, sides.report.problem});
  const bool changes = is_on(c, "--yes");
  if (changes) change(*store, *probe, config.broker, sides);
  print_answer(to_json(changes ? look_at_both(*store, *probe, config.broker) : sides, changes),
               [&](const Json&) { return text(sides); });
  const std::string others = shared(sides.report, sides.instances.size());
  const bool fit = conflict(sides.ownership, sides.report).empty();
  if (!changes && !others.empty()) throw Failed(kUserError, others);
  if (!changes && !fit)
    throw Failed(
        kUserError,
        "nothing was changed: stop whatever else serves this broker or this database, then run `rung "
        "adopt --yes`");
  if (!given().json)
    print(changes ? "changed: they belong together from now on; sidecars notice it within 30 s\n"
                  : "they fit: nothing to do\n");
  return kSuccess;
}

}  // namespace

Sides look_at_both(MysqlStore& store, rabbit::Probe& probe, const BrokerOptions& broker) {
  Sides sides{look_at_ownership(store), {}, {}};
  // Without an id no mark can be ours.
  sides.report = need(probe.owner(broker, {sides.is_new() ? "none" : sides.ownership.database, false}));
  for (const NodeRow& node : store.live_nodes()) sides.instances.push_back(node.name);
  return sides;
}

void add_adopt(CLI::App& app) {
  CLI::App& c =
      add_command(app, "adopt", "Says that this database serves this broker from now on",
                  "Examples:\n"
                  "  rung adopt                       what both sides remember, and whether they fit\n"
                  "  rung adopt --yes                 after a renamed or new cluster, or another database\n"
                  "A database serves one broker, virtual host and prefix, and each of these has one "
                  "database. First make\n"
                  "sure that nothing else serves the broker or the database (docs/operations.md).",
                  adopt, Takes::json);
  add_flag(c, "-y,--yes", "Change both sides; without it, only show them");
}

}  // namespace rung::cli
