// rung cancel, retry, finish: what a person does to tasks. decide() says whether their state allows it.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <random>

#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/story.h"
#include "src/cli/text.h"

namespace rung::cli {
namespace {

struct Options {
  Common common;
  std::vector<std::string> ids;
  std::string reason, error;
  bool succeeded = false, failed = false;
};

struct Change {
  TaskId id;
  Decision decision;
  std::optional<TaskRow> row;  // as it is then; none where there is no such task
};

Exit exit_of(const Change& change) {
  if (!change.row) return kNotFound;
  return change.decision.verdict == Decision::Verdict::refused ? kMistake : kDone;
}

// Of several: a mistake outweighs what was not found.
Exit worse(Exit a, Exit b) {
  const auto weight = [](Exit e) { return e == kMistake ? 2 : e == kNotFound ? 1 : 0; };
  return weight(a) >= weight(b) ? a : b;
}

int read_ids(const std::vector<std::string>& words, std::vector<TaskId>& ids) {
  for (const std::string& word : words) {
    const auto id = TaskId::parse(word);
    if (!id) {
      return complain(kMistake, "'" + word + "' is not a retry-id (digits); `rung list --message-id " + word +
                                    "` shows a message's ids");
    }
    if (std::ranges::find(ids, *id) == ids.end()) ids.push_back(*id);
  }
  return kDone;
}

Result<std::vector<Change>> apply(Session& session, const std::vector<TaskId>& ids, const Happening& what) {
  std::mt19937_64 dice{std::random_device{}()};
  std::uniform_real_distribution<double> random{0.0, 1.0};
  std::vector<Event> events;
  for (const TaskId id : ids) events.push_back({id, what});
  // No lease is held here: row locks and decide() are what guards it against the sidecars.
  auto decisions = session.store->apply(events, Fence{},
                                        [&](const Task& task, const Happening& happening, Circumstances at) {
                                          at.random = random(dice);
                                          return decide(task, happening, *session.config.rules, at);
                                        });
  if (!decisions) return tl::unexpected(decisions.error());
  std::vector<Change> changes;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    auto row = session.store->find(ids[i]);
    if (!row) return tl::unexpected(row.error());
    changes.push_back({ids[i], std::move((*decisions)[i]), *std::move(row)});
  }
  return changes;
}

void tell(const Change& change, const Session& session) {
  if (!change.row) {
    complain(kNotFound, "no task has the retry-id " + change.id.str());
    return;
  }
  const std::string now_is = what_next(*change.row, *session.config.rules, session.now);
  if (change.decision.verdict == Decision::Verdict::refused) {
    complain(kMistake, change.id.str() + ": " + change.decision.reason);
    return;
  }
  const bool before = change.decision.verdict == Decision::Verdict::stale;
  print(fmt::format("{}  {}{}\n", change.id.str(), one_line(now_is),
                    before ? " (nothing to do: " + change.decision.reason + ")" : ""));
}

Json to_json(const Change& change) {
  const char* result = "applied";
  if (change.decision.verdict == Decision::Verdict::stale) result = "nothing to do";
  if (change.decision.verdict == Decision::Verdict::refused) result = "refused";
  if (!change.row) result = "not found";
  return {{"retry_id", change.id.str()},
          {"result", result},
          {"reason", change.decision.reason.empty() ? Json() : Json(change.decision.reason)},
          {"task", change.row ? cli::to_json(*change.row) : Json()}};
}

int run(const Options& options, const Happening& what) {
  std::vector<TaskId> ids;
  if (const int code = read_ids(options.ids, ids); code != kDone) return code;
  Session session;
  if (const int code = open_session(options.common, session); code != kDone) return code;
  auto changes = apply(session, ids, what);
  if (!changes) return complain(changes.error());
  if (auto now = session.store->now()) session.now = *now;
  Exit exit = kDone;
  Json json = Json::array();
  for (const Change& change : *changes) {
    exit = worse(exit, exit_of(change));
    if (options.common.json) {
      json.push_back(to_json(change));
    } else {
      tell(change, session);
    }
  }
  if (options.common.json) print(dump(json) + "\n");
  return exit;
}

void add_ids(CLI::App& command, Options& options) {
  command.add_option("ID", options.ids, "Retry-ids, as rung list shows them")->required();
}

}  // namespace

void add_changes(CLI::App& app, int* exit) {
  auto o = std::make_shared<Options>();
  CLI::App& cancel =
      add_command(app, "cancel", "Takes scheduled tasks off their ladder: they are not sent again",
                  "Examples:\n"
                  "  rung cancel 249107395289088\n"
                  "  rung cancel 249107395289088 249107395289089 --reason \"order withdrawn\"\n"
                  "Only what is scheduled can be cancelled; what answers here is not published after it.",
                  o->common);
  add_ids(cancel, *o);
  cancel.add_option("--reason", o->reason, "Stands as the task's last error")->type_name("TEXT");
  cancel.callback([o, exit] { *exit = run(*o, event::Cancel{o->reason}); });

  CLI::App& retry =
      add_command(app, "retry", "Sends now: parked tasks from the first level on, scheduled ones at once",
                  "Examples:\n"
                  "  rung retry 249107395289088\n"
                  "  rung list --state parked --queue orders --all --json |\n"
                  "    jq -r '.tasks[].retry_id' | xargs -r rung retry",
                  o->common);
  add_ids(retry, *o);
  retry.callback([o, exit] { *exit = run(*o, event::Redrive{}); });

  CLI::App& finish = add_command(app, "finish", "Says for a consumer how an attempt ended",
                                 "Examples:\n"
                                 "  rung finish 249107395289088 --succeeded\n"
                                 "  rung finish 249107395289088 --failed --error \"refused by the bank\"\n"
                                 "A success ends the task; a failure sends it to the next level.",
                                 o->common);
  add_ids(finish, *o);
  CLI::Option_group& how = *finish.add_option_group("how");
  how.add_flag("--succeeded", o->succeeded, "It was handled");
  how.add_flag("--failed", o->failed, "It was not: the next level, or the parking lot");
  how.require_option(1);
  finish.add_option("--error", o->error, "What went wrong, with --failed")->type_name("TEXT");
  finish.callback([o, exit] {
    if (o->succeeded && !o->error.empty()) {
      *exit = complain(kMistake, "--error goes with --failed, not with --succeeded");
      return;
    }
    *exit = run(*o, event::Finish{o->succeeded, o->error});
  });
}

}  // namespace rung::cli
