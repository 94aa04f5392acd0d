// rung cancel, discard, reschedule, fire, redrive (and retry), finish: manual changes of tasks, by ids or by
// a filter. decide() says whether a task's state allows the change.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/cli/shared/bulk_run.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/options.h"
#include "src/cli/shared/task_text.h"
#include "src/core/machine/machine.h"

namespace rung::cli {
namespace {

constexpr Field kReason{"reason", Is::reason, "TEXT", "Why; recorded in the task's audit"};
constexpr Field kReasonToo{"reason", Is::reason, "TEXT",
                           "Why; recorded in the task's audit, and as its last error"};
constexpr Field kIncludeReported{"include_reported", Is::flag, "",
                                 "Also tasks whose success was reported, not only presumed"};
constexpr Field kTarget[] = {
    {"queue", Is::name, "QUEUE", "Send to this queue instead", "--to-queue"},
    {"exchange", Is::name, "NAME", "Send to this exchange instead", "--to-exchange"},
    {"routing_key", Is::text, "KEY", "The routing key for --to-exchange", "--to-routing-key"}};

// What the command line says.
struct ChangeOptions {
  CLI::App& command;
  std::vector<std::string> ids;
  std::vector<Field> fields;  // of the request
  BulkOptions bulk = {};
};

// What is asked of each task.
struct Wish {
  std::string action;  // the last part of the path
  Json body = Json::object();
  bool safe = true;  // a second time it changes nothing more: its answer may have been lost
};

// What became of one task.
struct Change {
  std::string id;
  std::string result;       // applied, nothing to do, refused, not found
  std::string reason = {};  // unless applied
  Json task = {};           // after it
};

Exit exit_of(const Change& change) {
  return change.result == "not found" ? kNotFound : change.result == "refused" ? kUserError : kSuccess;
}

// Of several: a user error takes precedence over not found.
Exit worse_of(Exit a, Exit b) {
  const auto weight = [](Exit e) { return e == kUserError ? 2 : e == kNotFound ? 1 : 0; };
  return weight(a) >= weight(b) ? a : b;
}

Change change(Api& api, const std::string& id, const Wish& wish) {
  const std::string path = "/v1/tasks/" + id + "/" + wish.action;
  auto answer = wish.safe ? api.call_patiently("POST", path, &wish.body) : api.call("POST", path, &wish.body);
  if (!answer) throw Failed(answer.error());
  if (answer->good()) {
    std::string why = answer->text("unchanged_because");
    const char* result = why.empty() ? "applied" : "nothing to do";
    return {id, result, std::move(why), std::move(answer->json)};
  }
  if (answer->status == 404) return {id, "not found", std::string(kNoSuchTask)};
  if (answer->status != 400 && answer->status != 403 && answer->status != 409)
    throw Failed(error_of(*answer));
  return {id, "refused", error_of(*answer, [](std::string_view) { return std::string(); }).message};
}

void print_change(const Change& change, Session& session) {
  if (change.result == "not found") {
    report_error(kNotFound, "no task with retry-id " + change.id);
  } else if (change.result == "refused") {
    report_error(kUserError, change.id + ": " + change.reason);
  } else {
    print(changed_line(session, change.id, change.task, change.reason));
  }
}

Json change_json(const Change& change, Api& api) {
  const auto task = change.result == "not found" ? Result<Json>(Json()) : api.get("/v1/tasks/" + change.id);
  return {{"retry_id", change.id},
          {"result", change.result},
          {"reason", api::text_or_null(change.reason)},
          {"task", task ? *task : change.task}};  // it is told even if it cannot be read again
}

// Changes the tasks that these retry-ids and message-ids name, each once. Throws what stopped it before all
// were changed.
void change_all(Api& api, const std::vector<std::string>& words, const Wish& wish,
                std::vector<Change>& done) {
  std::vector<std::string> ids;
  for (const std::string& word : words) {
    const auto number = TaskId::parse(word);
    const auto id = number ? number->str() : id_of_message(api, word);
    if (!id) throw no_such_task(word);
    ids.push_back(*id);
  }
  const auto is_done = [&](const std::string& id) {
    return std::ranges::find(done, id, &Change::id) != done.end();
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (is_done(ids[i])) continue;
    try {
      Change changed = change(api, ids[i], wish);
      if (changed.result == "not found") {
        // A message-id may be a number, too.
        const auto other = id_of_message(api, words[i]);
        if (other && is_done(*other)) continue;
        if (other) changed = change(api, *other, wish);
      }
      done.push_back(std::move(changed));
    } catch (const Failed& error) {
      if (i == 0) throw;
      throw Failed(error.exit, fmt::format("{}; task {} may have been changed, {} after it were not tried",
                                           error.what(), ids[i], ids.size() - i - 1));
    }
  }
}

int run(const ChangeOptions& o, Wish wish) {
  Session session;
  read_fields(o.command, o.fields, session.now, wish.body);
  std::vector<Change> done;
  std::optional<Failed> stopped;
  try {
    change_all(*session.api, o.ids, wish, done);
  } catch (const Failed& error) {
    if (done.empty()) throw;
    stopped = error;
  }
  if (auto now = session.api->now()) session.now = *now;
  Exit exit = kSuccess;
  Json json = {{"results", Json::array()}};
  for (const Change& change : done) {
    exit = worse_of(exit, exit_of(change));
    if (given().json) {
      json["results"].push_back(change_json(change, *session.api));
    } else {
      print_change(change, session);
    }
  }
  if (given().json) print_json(json);
  if (stopped) throw Failed(*stopped);
  return exit;
}

// By ids, or by a filter. `elsewhere`: the target that was given.
int run(const ChangeOptions& o, Wish wish, BulkAction action, const Json& elsewhere = Json::object()) {
  const bool filtered = !given_of(o.command, o.bulk.filter).empty();
  if (o.ids.empty() && !filtered)
    throw Failed(kUserError, "no tasks selected: give retry-ids or a filter (--queue, --tag, --state ...)");
  if (!o.ids.empty() && filtered)
    throw Failed(
        kUserError,
        "retry-ids and a filter cannot be combined (to redrive to another queue: redrive --to-queue)");
  if (o.ids.empty()) {
    Json bulk = Json::object();
    read_fields(o.command, o.fields, EpochMs{}, bulk);
    if (!elsewhere.empty()) bulk["elsewhere"] = elsewhere;
    return make_bulk(o.command, o.bulk, action, std::move(bulk));
  }
  if (const auto of_bulk = o.bulk.dry_run ? "--dry-run" : given_of(o.command, o.bulk.request);
      !of_bulk.empty())
    throw Failed(kUserError, of_bulk + " needs a filter, not retry-ids");
  wish.body.update(elsewhere);
  return run(o, std::move(wish));
}

constexpr const char* kFilterHelp =
    "\nWith a filter (as in rung list) it acts on all tasks that match now, and asks first unless --yes is "
    "given.\n"
    "A sidecar carries it out; Ctrl-C pauses it (see rung bulk resume).";

// With its ids, its `fields` and, unless it takes ids alone, the options of a bulk.
std::shared_ptr<ChangeOptions> add_change(CLI::App& app, const std::string& name, const char* summary,
                                          const std::string& footer, std::vector<Field> fields,
                                          std::optional<BulkAction> bulk) {
  CLI::App& c = add_command(app, name, summary, footer + (bulk ? kFilterHelp : ""));
  auto o = std::make_shared<ChangeOptions>(ChangeOptions{c, {}, std::move(fields)});
  c.add_option("ID", o->ids, "Retry-ids or message-ids, as listed by rung list")->required(!bulk);
  if (bulk) add_bulk_options(c, o->bulk, *bulk);
  add_fields(c, o->fields);
  return o;
}

// Of a command that has no further options.
void add_action(CLI::App& app, int* exit, BulkAction action, const char* summary, const std::string& footer,
                const Field& reason) {
  const std::string name(to_word(action));
  auto o = add_change(app, name, summary, footer, {reason}, action);
  o->command.callback([o, exit, action, name] { *exit = run(*o, {name}, action); });
}

void add_redrive(CLI::App& app, int* exit) {
  auto o = add_change(
      app, "redrive", "Sends tasks now: parked ones and presumed successes start again at level 1",
      "Examples:\n"
      "  rung redrive 249107395289088\n"
      "  rung redrive --queue orders --error timeout          parked tasks, by a filter\n"
      "  rung redrive --queue orders --error '/HTTP 5[0-9][0-9]/' --limit 10 --reason \"bank is back\"\n"
      "  rung redrive --queue orders --dry-run --by error_type\n"
      "  rung redrive --cause 9f2c41d07ab3 --careful\n"
      "  rung redrive --cause 9f2c41d07ab3 --canary 10 --watch 2m --ramp --rate 100 --stop-on-failures "
      "5%\n"
      "  rung redrive --queue orders --state awaiting         deliveries whose silence is held open\n"
      "  rung redrive 249107395289088 --to-queue orders.by-hand\n"
      "  rung redrive --queue orders --to-exchange shop --to-routing-key order.new\n"
      "A presumed success can be sent again, too; a reported one only with --include-reported.",
      {kReason,
       kIncludeReported,
       {"include_replaced", Is::flag, "", "With retry-ids: also tasks that an edited copy has replaced"}},
      BulkAction::redrive);
  CLI::App& c = o->command;
  c.alias("retry");
  add_fields(c, kTarget, "Where to");
  c.get_option("--to-queue")->excludes("--to-exchange")->excludes("--to-routing-key");
  c.callback([o, exit] {
    if (o->ids.empty() && is_on(o->command, "--include-replaced"))
      throw Failed(kUserError, "--include-replaced needs retry-ids, not a filter");
    Json elsewhere = Json::object();
    read_fields(o->command, kTarget, EpochMs{}, elsewhere);
    *exit = run(*o, {"redrive"}, BulkAction::redrive, elsewhere);
  });
}

void add_reschedule(CLI::App& app, int* exit) {
  static constexpr Field kWhen[] = {
      {"delay", Is::duration, "DURATION", "Due after this time"},
      {"at", Is::future, "TIME", "Due at this time (UTC unless it has an offset)"}};
  auto o = add_change(app, "reschedule", "Changes the due time of scheduled tasks",
                      "Examples:\n"
                      "  rung reschedule 249107395289088 --delay 2h\n"
                      "  rung reschedule 249107395289088 --at 2026-11-21T17:05:00Z",
                      {kReason}, std::nullopt);
  CLI::Option_group& when = *o->command.add_option_group("when");
  add_fields(when, kWhen);
  when.require_option(1);
  o->fields.insert(o->fields.end(), std::begin(kWhen), std::end(kWhen));
  o->command.callback([o, exit] {
    const bool safe = o->command.count("--delay") == 0;
    *exit = run(*o, {"reschedule", Json::object(), safe});
  });
}

void add_finish(CLI::App& app, int* exit) {
  auto o = add_change(
      app, "finish", "Reports the result of an attempt on behalf of a consumer",
      "Examples:\n"
      "  rung finish 249107395289088 --succeeded\n"
      "  rung finish 249107395289088 --failed --error \"refused by the bank\" --executor app-3:8080\n"
      "  rung finish 249107395289088 --failed --attempt 2      safe to repeat: fails attempt 2 only\n"
      "  rung finish --queue orders --outcome-unknown --succeeded --reason \"counted in the shop\"\n"
      "A success ends the task; a failure moves it to the next level, also after a presumed success (after "
      "a\n"
      "reported one only with --include-reported). An attempt that is being published can "
      "only\n"
      "be finished after the broker's confirm; the command waits up to 2 s for it.\n"
      "With a filter and no --state: only deliveries whose silence is held open.",
      {kReason,
       kIncludeReported,
       {"error", Is::text, "TEXT", "The error text, with --failed"},
       {"attempt",
        Is::number,
        "N",
        "The attempt that failed, as in retry-attempt (default: the current one)",
        {},
        {},
        1,
        1e9},
       {"executor", Is::text, "ADDRESS", "Who handled the attempt; recorded in the history"}},
      BulkAction::fail);
  CLI::App& c = o->command;
  CLI::Option_group& how = *c.add_option_group("how");
  add_flag(how, "--succeeded", "The attempt succeeded").disable_flag_override();
  add_flag(how, "--failed", "The attempt failed: next level, or parked").disable_flag_override();
  how.require_option(1);
  c.callback([o, exit, &c] {
    const bool succeeded = c.count("--succeeded") > 0;
    const auto has = [&c](const char* flag) { return c.count(flag) > 0; };
    for (const char* flag : {"--error", "--include-reported"}) {
      if (succeeded && has(flag))
        throw Failed(kUserError, flag + std::string(" needs --failed, not --succeeded"));
    }
    if (o->ids.empty() && (has("--attempt") || has("--executor")))
      throw Failed(kUserError, "--attempt and --executor need retry-ids, not a filter");
    if (o->ids.empty() && has("--error"))
      throw Failed(kUserError, "--error needs retry-ids; with a filter, --reason is the error text, too");
    *exit =
        run(*o, {"finish", {{"result", succeeded ? "succeeded" : "failed"}}, succeeded || has("--attempt")},
            succeeded ? BulkAction::succeed : BulkAction::fail);
  });
}

}  // namespace

void add_changes(CLI::App& app, int* exit) {
  add_action(app, exit, BulkAction::cancel, "Cancels scheduled tasks: they are not sent again",
             "Examples:\n"
             "  rung cancel 249107395289088\n"
             "  rung cancel 249107395289088 249107395289089 --reason \"order withdrawn\"\n"
             "  rung cancel --tag coupon.reminder --due-before 1d --dry-run\n"
             "Only scheduled tasks can be cancelled. Once cancel has returned, the message is not published.",
             kReasonToo);
  add_action(app, exit, BulkAction::discard, "Gives up parked or scheduled tasks: they are not sent again",
             "Examples:\n"
             "  rung discard 249107395289088 --reason \"refunded by hand\"\n"
             "  rung discard --queue orders --created-before 30d --yes    parked tasks, by a filter\n"
             "A discarded task keeps its history until `retention` deletes it.",
             kReasonToo);
  add_reschedule(app, exit);
  add_action(app, exit, BulkAction::fire, "Sends scheduled tasks now",
             "Examples:\n"
             "  rung fire 249107395289088\n"
             "  rung fire --queue orders --rate 50 --yes",
             kReason);
  add_redrive(app, exit);
  add_finish(app, exit);
}

}  // namespace rung::cli
