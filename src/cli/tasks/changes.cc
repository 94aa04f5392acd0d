// rung cancel, discard, reschedule, fire, redrive (and retry), finish: manual changes of tasks, by ids or by
// a filter. decide() says whether a task's state allows the change.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/cli/shared/task_text.h"
#include "src/cli/tasks/bulk.h"
#include "src/core/machine/machine.h"

namespace rung::cli {
namespace {

constexpr Field kReason{"reason", Is::reason, "TEXT", "Why; recorded in the task's audit"};
constexpr Field kReasonToo{"reason", Is::reason, "TEXT",
                           "Why; recorded in the task's audit, and as its last error"};
constexpr Field kIncludeReported{"include_reported", Is::flag, "",
                                 "Also tasks whose success was reported, not only presumed"};
constexpr Field kRedrive[] = {
    kReason,
    kIncludeReported,
    {"include_replaced", Is::flag, "", "With retry-ids: also tasks that an edited copy has replaced"}};
constexpr Field kFinish[] = {
    kReason,
    kIncludeReported,
    {"error", Is::text, "TEXT", "The error text, with --failed"},
    {"attempt", Is::number, "N", "The attempt that failed, as in retry-attempt (default: the current one)",
     "", 1, 1e9},
    {"executor", Is::text, "ADDRESS", "Who handled the attempt; recorded in the history"}};
constexpr Field kTarget[] = {
    {"queue", Is::name, "QUEUE", "Send to this queue instead", "--to-queue"},
    {"exchange", Is::name, "NAME", "Send to this exchange instead", "--to-exchange"},
    {"routing_key", Is::text, "KEY", "The routing key for --to-exchange", "--to-routing-key"}};

// What is asked of each task.
struct Wish {
  std::string action;  // the last part of the path
  Json body = Json::object();
  bool safe = true;  // a second time it changes nothing more: its answer may have been lost
};

std::vector<std::string> ids_of(const CLI::App& c) { return c.get_option("ID")->results(); }

// What became of one task: result_json(), and the task after it. `result`: applied, nothing to do, refused,
// not found; `reason`: unless applied.
Json change(Api& api, const std::string& id, const Wish& wish) {
  const auto answer = api.call("POST", "/v1/tasks/" + id + "/" + wish.action, &wish.body, wish.safe);
  if (!answer) throw Failed(answer.error());
  if (answer->good()) {
    const std::string why = answer->text("unchanged_because");
    return result_json(id, why.empty() ? "applied" : "nothing to do", why, answer->json);
  }
  if (answer->status == 404) return result_json(id, "not found", std::string(kNoSuchTask), {});
  if (answer->status != 400 && answer->status != 403 && answer->status != 409)
    throw Failed(error_of(*answer));
  return result_json(id, "refused", error_of(*answer, [](std::string_view) { return std::string(); }).message,
                     {});
}

// Changes the tasks that these retry-ids and message-ids name, each once. Throws what stopped it before all
// were changed.
void change_all(Api& api, const std::vector<std::string>& words, const Wish& wish, Json& done) {
  std::vector<std::string> ids;
  for (const std::string& word : words) {
    const auto number = TaskId::parse(word);
    const auto id = number ? number->str() : id_of_message(api, word);
    if (!id) throw no_such_task(word);
    ids.push_back(*id);
  }
  const auto is_done = [&](const std::string& id) {
    return std::any_of(done.begin(), done.end(),
                       [&](const Json& one) { return text_of(one, "retry_id") == id; });
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (is_done(ids[i])) continue;
    try {
      Json changed = change(api, ids[i], wish);
      if (text_of(changed, "result") == "not found") {
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

int change_by_ids(const CLI::App& c, std::span<const Field> fields, Wish wish) {
  Session session;
  read_fields(c, fields, session.now, wish.body);
  Json done = Json::array();
  std::optional<Failed> stopped;
  try {
    change_all(*session.api, ids_of(c), wish, done);
  } catch (const Failed& error) {
    if (done.empty()) throw;
    stopped = error;
  }
  if (auto now = session.api->now()) session.now = *now;
  Exit exit = kSuccess;
  for (Json& one : done) {
    const std::string id = text_of(one, "retry_id"), result = text_of(one, "result"),
                      reason = text_of(one, "reason");
    const Exit code = result == "not found" ? kNotFound : result == "refused" ? kUserError : kSuccess;
    // A user error takes precedence over not found.
    if (code != kSuccess && exit != kUserError) exit = code;
    if (given().json) {
      const auto task = code == kNotFound ? Result<Json>(Json()) : session.api->get("/v1/tasks/" + id);
      if (task) one["task"] = *task;  // else it is told as it was changed
    } else if (code == kNotFound) {
      report_error(code, "no task with retry-id " + id);
    } else if (code == kUserError) {
      report_error(code, id + ": " + reason);
    } else {
      print(changed_line(session, id, part_of(one, "task"), reason));
    }
  }
  if (given().json) print_json({{"results", done}});
  if (stopped) throw Failed(*stopped);
  return exit;
}

// By ids, or by a filter. `elsewhere`: the target that was given.
int change_any(const CLI::App& c, std::span<const Field> fields, Wish wish, BulkAction action,
               const Json& elsewhere = Json::object()) {
  const bool filtered = !given_of(c, bulk_filter(action)).empty(), by_ids = !ids_of(c).empty();
  if (!by_ids && !filtered)
    throw Failed(kUserError, "no tasks selected: give retry-ids or a filter (--queue, --tag, --state ...)");
  if (by_ids && filtered)
    throw Failed(
        kUserError,
        "retry-ids and a filter cannot be combined (to redrive to another queue: redrive --to-queue)");
  if (!by_ids) {
    Json bulk = Json::object();
    read_fields(c, fields, EpochMs{}, bulk);
    if (!elsewhere.empty()) bulk["elsewhere"] = elsewhere;
    return make_bulk(c, action, std::move(bulk));
  }
  if (const auto of_bulk = is_on(c, "--dry-run") ? "--dry-run" : given_of(c, bulk_fields(action));
      !of_bulk.empty())
    throw Failed(kUserError, of_bulk + " needs a filter, not retry-ids");
  wish.body.update(elsewhere);
  return change_by_ids(c, fields, std::move(wish));
}

constexpr const char* kFilterHelp =
    "\nWith a filter (as in rung list) it acts on all tasks that match now, and asks first unless --yes is "
    "given.\n"
    "A sidecar carries it out; Ctrl-C pauses it (see rung bulk resume).";

// With its ids, its `fields` and, unless it takes ids alone, the options of a bulk.
CLI::App& add_change(CLI::App& app, const std::string& name, const char* summary, const std::string& footer,
                     std::span<const Field> fields, std::optional<BulkAction> bulk, Run run) {
  CLI::App& c = add_command(app, name, summary, footer + (bulk ? kFilterHelp : ""), std::move(run));
  add_words(c, "ID", "Retry-ids or message-ids, as listed by rung list").required(!bulk);
  if (bulk) add_bulk_options(c, *bulk);
  add_fields(c, fields);
  return c;
}

// A command that has no further options. `reason`: outlives it.
void add_action(CLI::App& app, BulkAction action, const char* summary, const std::string& footer,
                const Field& reason) {
  const std::string name(to_word(action));
  add_change(app, name, summary, footer, {&reason, 1}, action, [&reason, action, name](const CLI::App& c) {
    return change_any(c, {&reason, 1}, {name}, action);
  });
}

int redrive(const CLI::App& c) {
  if (ids_of(c).empty() && is_on(c, "--include-replaced"))
    throw Failed(kUserError, "--include-replaced needs retry-ids, not a filter");
  Json elsewhere = Json::object();
  read_fields(c, kTarget, EpochMs{}, elsewhere);
  return change_any(c, kRedrive, {"redrive"}, BulkAction::redrive, elsewhere);
}

void add_redrive(CLI::App& app) {
  CLI::App& c = add_change(
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
      kRedrive, BulkAction::redrive, redrive);
  c.alias("retry");
  add_fields(c, kTarget, "Where to");
  c.get_option("--to-queue")->excludes("--to-exchange")->excludes("--to-routing-key");
}

void add_reschedule(CLI::App& app) {
  static constexpr Field kWhen[] = {
      {"delay", Is::duration, "DURATION", "Due after this time"},
      {"at", Is::future, "TIME", "Due at this time (UTC unless it has an offset)"},
      kReason};
  CLI::App& c = add_change(app, "reschedule", "Changes the due time of scheduled tasks",
                           "Examples:\n"
                           "  rung reschedule 249107395289088 --delay 2h\n"
                           "  rung reschedule 249107395289088 --at 2026-11-21T17:05:00Z",
                           {&kReason, 1}, std::nullopt, [](const CLI::App& command) {
                             const bool safe = command.count("--delay") == 0;
                             return change_by_ids(command, kWhen, {"reschedule", Json::object(), safe});
                           });
  CLI::Option_group& when = *c.add_option_group("when");
  add_fields(when, std::span(kWhen).first(2));
  when.require_option(1);
}

int finish(const CLI::App& c) {
  const auto has = [&c](const char* flag) { return c.count(flag) > 0; };
  const bool succeeded = has("--succeeded"), by_ids = !ids_of(c).empty();
  for (const char* flag : {"--error", "--include-reported"}) {
    if (succeeded && has(flag))
      throw Failed(kUserError, flag + std::string(" needs --failed, not --succeeded"));
  }
  if (!by_ids && (has("--attempt") || has("--executor")))
    throw Failed(kUserError, "--attempt and --executor need retry-ids, not a filter");
  if (!by_ids && has("--error"))
    throw Failed(kUserError, "--error needs retry-ids; with a filter, --reason is the error text, too");
  return change_any(
      c, kFinish, {"finish", {{"result", succeeded ? "succeeded" : "failed"}}, succeeded || has("--attempt")},
      succeeded ? BulkAction::succeed : BulkAction::fail);
}

void add_finish(CLI::App& app) {
  CLI::App& c = add_change(
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
      kFinish, BulkAction::fail, finish);
  CLI::Option_group& how = *c.add_option_group("how");
  add_flag(how, "--succeeded", "The attempt succeeded").disable_flag_override();
  add_flag(how, "--failed", "The attempt failed: next level, or parked").disable_flag_override();
  how.require_option(1);
}

}  // namespace

void add_changes(CLI::App& app) {
  add_action(app, BulkAction::cancel, "Cancels scheduled tasks: they are not sent again",
             "Examples:\n"
             "  rung cancel 249107395289088\n"
             "  rung cancel 249107395289088 249107395289089 --reason \"order withdrawn\"\n"
             "  rung cancel --tag coupon.reminder --due-before 1d --dry-run\n"
             "Only scheduled tasks can be cancelled. Once cancel has returned, the message is not published.",
             kReasonToo);
  add_action(app, BulkAction::discard, "Gives up parked or scheduled tasks: they are not sent again",
             "Examples:\n"
             "  rung discard 249107395289088 --reason \"refunded by hand\"\n"
             "  rung discard --queue orders --created-before 30d --yes    parked tasks, by a filter\n"
             "A discarded task keeps its history until `retention` deletes it.",
             kReasonToo);
  add_reschedule(app);
  add_action(app, BulkAction::fire, "Sends scheduled tasks now",
             "Examples:\n"
             "  rung fire 249107395289088\n"
             "  rung fire --queue orders --rate 50 --yes",
             kReason);
  add_redrive(app);
  add_finish(app);
}

}  // namespace rung::cli
