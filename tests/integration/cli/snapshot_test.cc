// What the commands print, word by word: snapshots/*.txt have command lines ("$ ...") and under each its
// output. Times, durations, ids and names of this run are masked, and several blanks are two. That the API's
// way prints the same: ByApi.BothWaysPrintTheSameBytes.
#include "tests/support/snapshot.h"

#include <regex>
#include <sstream>

#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;

class Snapshot : public CliTest {
 protected:
  Snapshot() { store(); }

  // `ids`: variables of the shell, which stand in the output, too.
  void expect_as_written(const std::string& name, const std::map<std::string, TaskId>& ids) {
    const std::string path = RUNG_SOURCE_DIR "/tests/integration/cli/snapshots/" + name;
    std::string script = "rung() { '" RUNG_TEST_PROGRAM "' \"$@\" -c '" + config_path() + "'; }\n";
    script += "PREFIX=" + prefix + "\n";
    for (const auto& [variable, id] : ids) script += variable + "=" + id.str() + "\n";
    std::istringstream lines(test::text_of_file(path));
    std::string said;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("$ ")) continue;
      const auto ran = run_program({"sh", "-c", script + "exec 2>&1\n" + line.substr(2)});
      said += (said.empty() ? "" : "\n") + line + "\n" + masked(ran.out, ids);
      if (ran.exit != 0) said += "exit " + std::to_string(ran.exit) + "\n";
    }
    test::expect_snapshot(path, said);
  }
  std::string masked(std::string text, const std::map<std::string, TaskId>& ids) const {
    for (const auto& [variable, id] : ids) test::replace_all(text, id.str(), "$" + variable);
    test::replace_all(text, prefix, "$PREFIX");
    test::replace_all(text, db.name(), "SCHEMA");
    if (ids.empty()) return text;
    static const std::vector<std::pair<std::regex, std::string>> masks = {
        {std::regex(R"(20[0-4]\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)?)"), "TIME"},
        {std::regex(R"(\b(\d+(\.\d+)?(ms|[dhms]))+\b)"), "SPAN"},
        {std::regex(R"(\b(now(?!:)|SPAN ago)\b)"), "AGO"},
        {std::regex(R"(\b\d{17,}\b)"), "ID"},
        {std::regex(R"([^ ("]+@[^ ]+ \(cli\))"), "WHO (cli)"},
        {std::regex("   +"), "  "},
        {std::regex("\nshard  \\d+"), "\nshard  N"},
        {std::regex(" +\n"), "\n"}};
    for (const auto& [what, by] : masks) text = std::regex_replace(text, what, by);
    return text;
  }
  TaskId delivered(const std::string& queue, const std::string& message_id) {
    const TaskId id = insert(fresh(queue, -1s, message_id));
    happen(id, event::Claim{});
    happen(id, event::Confirmed{1, now()});
    return id;
  }
};

TEST_F(Snapshot, OfWhatIsWrong) { expect_as_written("refusals.txt", {}); }

TEST_F(Snapshot, OfWhatIsShownAndChanged) {
  std::map<std::string, TaskId> ids;
  ids["WAITS"] = insert(fresh("orders", 10min, "m-1"));
  ids["CLIMBS"] = delivered("orders", "m-2");
  happen(ids["CLIMBS"], event::Failed{1, "second \x1b[31mboom\n  at pay.py:17", "", {}});
  ids["PARKED"] = delivered("invoices", "m-3");
  Directives never;
  never.never = true;
  happen(ids["PARKED"], event::Failed{1, "no such customer", "", never});
  ids["AWAITS"] = delivered("invoices", "m-4");
  ids["PUBLISHING"] = insert(fresh("mail", -1s, "m-5"));
  happen(ids["PUBLISHING"], event::Claim{});
  store().change_gate("mail", [&](GateState& state, EpochMs at) {
    state.breaker.state = Breaker::State::open;
    state.breaker.since = state.breaker.opened_at = at;
    state.breaker.until = at + 600'000ms;
    state.breaker.reason = "20 of the last 100 deliveries failed, the last one with: boom";
    return std::vector<SystemEvent>{};
  });
  CountBatch kept;  // promises of lateness
  kept.changes = {{"orders", {99'999, 1, 7}, {}}, {"(other)", {0, 0, 2}, {}}};
  kept.at = now();
  kept.maker = "a";
  kept.id = "1";
  store().add_counts(kept);
  constexpr std::uint64_t kIncarnation = 5;
  const std::string most = "0123456789abcdef", other = "fedcba9876543210";
  for (const auto& [name, config] : std::map<std::string, std::string>{
           {"alive", most}, {"differs", other}, {"killed", most}, {"left", most}, {"twin", most}}) {
    const int node = store().register_node({name, "9.9", "host-" + name + ":77", kIncarnation}, 1h);
    store().heartbeat(node, kIncarnation, 1h, {}, BrokerLink::up, config);
    if (name == "alive") {
      store().acquire(node, kIncarnation, std::vector<int>{10, 11, 12, 20, 40, 41}, 1h);
    }
    if (name == "left") {
      store().leave(node, kIncarnation);
    }
  }
  db.exec(
      "UPDATE rung_nodes SET started_at = started_at - INTERVAL 2 HOUR, seen_at = seen_at - INTERVAL 2 HOUR, "
      "expires_at = expires_at - INTERVAL 2 HOUR WHERE name = 'killed'");
  expect_as_written("shown.txt", ids);
}

}  // namespace
}  // namespace rung::cli
