// rung cancel, discard, reschedule, fire, redrive (and retry), finish: manual changes of tasks, by ids or by
// a filter. decide() says whether a task's state allows the change.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/cli/shared/bulk_run.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/task_text.h"
#include "src/core/base/time.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/machine.h"

namespace rung::cli {
namespace {

struct ChangeOptions {
  std::vector<std::string> ids;
  FilterOptions filter;
  BulkOptions bulk;
  std::string reason, error, executor, delay, at;
  Target elsewhere;
  bool succeeded = false, failed = false, even_reported = false, even_replaced = false;
  int attempt = 0;
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

Result<Change> change(Api& api, const std::string& id, const Wish& wish) {
  const std::string path = "/v1/tasks/" + id + "/" + wish.action;
  auto answer = wish.safe ? api.call_patiently("POST", path, &wish.body) : api.call("POST", path, &wish.body);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->good()) {
    std::string why = answer->text("unchanged_because");
    const char* result = why.empty() ? "applied" : "nothing to do";
    return Change{id, result, std::move(why), std::move(answer->json)};
  }
  if (answer->status == 404) return Change{id, "not found", std::string(kNoSuchTask)};
  const std::string wrong = answer->wrong(false);
  if (answer->status == 400 || answer->status == 403 || answer->status == 409)
    return Change{id, "refused", wrong.empty() ? answer->text("detail") : wrong};
  return tl::unexpected(error_of(*answer));
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

// Changes the tasks that these retry-ids and message-ids name, each once. Error: what stopped it before all
// were changed.
Result<void> change_all(Api& api, const std::vector<std::string>& words, const Wish& wish,
                        std::vector<Change>& done) {
  std::vector<std::string> ids;
  for (const std::string& word : words) {
    const auto number = TaskId::parse(word);
    auto id = number ? Result<std::string>(number->str()) : id_of_message(api, word);
    if (!id) return tl::unexpected(id.error());
    ids.push_back(*std::move(id));
  }
  const auto is_done = [&](const std::string& id) {
    return std::ranges::find(done, id, &Change::id) != done.end();
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (is_done(ids[i])) continue;
    auto changed = change(api, ids[i], wish);
    if (changed && changed->result == "not found") {
      // A message-id may be a number, too.
      const auto other = id_of_message(api, words[i]);
      if (!other && other.error().kind == Error::Kind::permanent) return tl::unexpected(other.error());
      if (other && is_done(*other)) continue;
      if (other) changed = change(api, *other, wish);
    }
    if (!changed) {
      Error error = changed.error();
      if (ids.size() > 1 && i > 0)
        error.message += fmt::format("; task {} may have been changed, {} after it were not tried", ids[i],
                                     ids.size() - i - 1);
      return tl::unexpected(std::move(error));
    }
    done.push_back(*std::move(changed));
  }
  return {};
}

int run(Session& session, const ChangeOptions& options, Wish wish) {
  if (session.api == nullptr) {
    if (const int code = open_service(session); code != kSuccess) return code;
  }
  if (!options.reason.empty()) wish.body["reason"] = clean_utf8(options.reason, kErrorBytes);
  std::vector<Change> done;
  const auto all = change_all(*session.api, options.ids, wish, done);
  if (done.empty() && !all) return report_error(all.error());
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
  return all ? static_cast<int>(exit) : report_error(all.error());
}

// By ids, or by a filter.
int run_by_ids_or_filter(const ChangeOptions& o, Wish wish, BulkAction action) {
  const bool filtered = is_set(o.filter);
  if (o.ids.empty() && !filtered)
    return report_error(kUserError,
                        "no tasks selected: give retry-ids or a filter (--queue, --tag, --state ...)");
  if (!o.ids.empty() && filtered)
    return report_error(
        kUserError,
        "retry-ids and a filter cannot be combined (to redrive to another queue: redrive --to-queue)");
  if (o.ids.empty() && o.even_replaced)
    return report_error(kUserError, "--even-replaced needs retry-ids, not a filter");
  if (o.ids.empty()) {
    Json bulk = Json::object();
    if (!o.reason.empty()) bulk["reason"] = clean_utf8(o.reason, kErrorBytes);
    if (o.elsewhere.is_set()) add_target(o.elsewhere, bulk["elsewhere"]);
    if (o.even_reported) bulk["even_reported"] = true;
    return make_bulk(o.filter, o.bulk, action, std::move(bulk));
  }
  if (o.bulk.dry_run || !o.bulk.request.empty()) {
    const std::string name = o.bulk.dry_run ? "dry_run" : o.bulk.request.begin().key();
    return report_error(kUserError, option_for(name) + " needs a filter, not retry-ids");
  }
  Session session;
  return run(session, o, std::move(wish));
}

int run_reschedule(const ChangeOptions& o) {
  Session session;
  if (!o.delay.empty()) {
    const auto delay = levels::parse_duration(o.delay);
    if (!delay) return report_error(kUserError, "--delay: " + delay.error());
    return run(session, o, {"reschedule", {{"delay", delay->count()}}, false});
  }
  if (const int code = open_service(session); code != kSuccess) return code;
  const auto at = parse_when(o.at, session.now, Direction::future);
  if (!at) return report_error(kUserError, "--at: " + at.error());
  return run(session, o, {"reschedule", {{"at", to_rfc3339(*at)}}});
}

int run_finish(const ChangeOptions& o) {
  if (o.succeeded && !o.error.empty())
    return report_error(kUserError, "--error needs --failed, not --succeeded");
  if (o.succeeded && o.even_reported)
    return report_error(kUserError, "--even-reported needs --failed, not --succeeded");
  const bool by_filter = o.ids.empty();
  if (by_filter && (o.attempt > 0 || !o.executor.empty()))
    return report_error(kUserError, "--attempt and --executor need retry-ids, not a filter");
  if (by_filter && !o.error.empty())
    return report_error(kUserError,
                        "--error needs retry-ids; with a filter, --reason is the error text, too");
  Wish wish{"finish", {{"result", o.succeeded ? "succeeded" : "failed"}}, o.succeeded || o.attempt > 0};
  if (!o.error.empty()) wish.body["error"] = o.error;
  if (!o.executor.empty()) wish.body["executor"] = o.executor;
  if (o.attempt > 0) wish.body["attempt"] = o.attempt;
  if (o.even_reported) wish.body["even_reported"] = true;
  return run_by_ids_or_filter(o, std::move(wish), o.succeeded ? BulkAction::succeed : BulkAction::fail);
}

CLI::Option& add_ids(CLI::App& command, ChangeOptions& options) {
  return *command.add_option("ID", options.ids, "Retry-ids or message-ids, as listed by rung list");
}

// Options of a change that takes ids or a filter.
void add_selection(CLI::App& command, ChangeOptions& options) {
  add_ids(command, options);
  add_filter(command, options.filter);
  add_bulk_options(command, options.bulk);
}

constexpr const char* kFilterHelp =
    "\nWith a filter (as in rung list) it acts on all tasks that match now, and asks first unless --yes is "
    "given.\n"
    "A sidecar carries it out; Ctrl-C pauses it (see rung bulk resume).";

constexpr const char* kReason = "Why; recorded in the task's audit";
void add_reason(CLI::App& c, ChangeOptions& o, const char* what = kReason) {
  c.add_option("--reason", o.reason, what)->type_name("TEXT");
}
constexpr const char* kReasonToo = "Why; recorded in the task's audit, and as its last error";

void add_even_reported(CLI::App& c, ChangeOptions& o) {
  c.add_flag("--even-reported", o.even_reported, "Also tasks whose success was reported, not only presumed");
}

// Of a command that has no further options.
void add_action(CLI::App& app, int* exit, BulkAction action, const char* summary, const std::string& footer,
                const char* reason) {
  auto o = std::make_shared<ChangeOptions>();
  const std::string name(to_word(action));
  CLI::App& c = add_command(app, name, summary, footer + kFilterHelp);
  add_selection(c, *o);
  add_reason(c, *o, reason);
  c.callback([o, exit, action, name] { *exit = run_by_ids_or_filter(*o, {name}, action); });
}

void add_redrive(CLI::App& app, int* exit) {
  auto o = std::make_shared<ChangeOptions>();
  CLI::App& c = add_command(
      app, "redrive", "Sends tasks now: parked ones and presumed successes start again at level 1",
      std::string(
          "Examples:\n"
          "  rung redrive 249107395289088\n"
          "  rung redrive --queue orders --error timeout          parked tasks, by a filter\n"
          "  rung redrive --queue orders --error '/HTTP 5[0-9][0-9]/' --limit 10 --reason \"bank is back\"\n"
          "  rung redrive --queue orders --dry-run --by error_type\n"
          "  rung redrive --cause 9f2c41d07ab3 --canary 10 --watch 2m --ramp --rate 100 --stop-on-failures "
          "5%\n"
          "  rung redrive --queue orders --state awaiting         deliveries whose silence is held open\n"
          "  rung redrive 249107395289088 --to-queue orders.by-hand\n"
          "  rung redrive --queue orders --to-exchange shop --to-routing-key order.new\n"
          "A presumed success can be sent again, too; a reported one only with --even-reported.") +
          kFilterHelp);
  c.alias("retry");
  add_selection(c, *o);
  add_care_options(c, o->bulk);
  c.option_defaults()->group("Where to");
  CLI::Option* queue =
      c.add_option("--to-queue", o->elsewhere.queue, "Send to this queue instead")->type_name("QUEUE");
  c.add_option("--to-exchange", o->elsewhere.exchange, "Send to this exchange instead")
      ->type_name("NAME")
      ->excludes(queue);
  c.add_option("--to-routing-key", o->elsewhere.routing_key, "The routing key for --to-exchange")
      ->type_name("KEY")
      ->excludes(queue);
  c.option_defaults()->group("Options");
  add_reason(c, *o);
  add_even_reported(c, *o);
  c.add_flag("--even-replaced", o->even_replaced,
             "With retry-ids: also tasks that an edited copy has replaced");
  c.callback([o, exit] {
    Wish wish{"redrive"};
    add_target(o->elsewhere, wish.body);
    if (o->even_reported) wish.body["even_reported"] = true;
    if (o->even_replaced) wish.body["even_replaced"] = true;
    *exit = run_by_ids_or_filter(*o, std::move(wish), BulkAction::redrive);
  });
}

void add_reschedule(CLI::App& app, int* exit) {
  auto o = std::make_shared<ChangeOptions>();
  CLI::App& c = add_command(app, "reschedule", "Changes the due time of scheduled tasks",
                            "Examples:\n"
                            "  rung reschedule 249107395289088 --delay 2h\n"
                            "  rung reschedule 249107395289088 --at 2026-11-21T17:05:00Z");
  add_ids(c, *o).required();
  CLI::Option_group& when = *c.add_option_group("when");
  when.add_option("--delay", o->delay, "Due after this time")->type_name("DURATION");
  when.add_option("--at", o->at, "Due at this time (UTC unless it has an offset)")->type_name("TIME");
  when.require_option(1);
  add_reason(c, *o);
  c.callback([o, exit] { *exit = run_reschedule(*o); });
}

void add_finish(CLI::App& app, int* exit) {
  auto o = std::make_shared<ChangeOptions>();
  CLI::App& c = add_command(
      app, "finish", "Reports the result of an attempt on behalf of a consumer",
      "Examples:\n"
      "  rung finish 249107395289088 --succeeded\n"
      "  rung finish 249107395289088 --failed --error \"refused by the bank\" --executor app-3:8080\n"
      "  rung finish 249107395289088 --failed --attempt 2      safe to repeat: fails attempt 2 only\n"
      "  rung finish --queue orders --silence-held --succeeded --reason \"counted in the shop\"\n"
      "A success ends the task; a failure moves it to the next level, also after a presumed success (after "
      "a\n"
      "reported one only with --even-reported). An attempt that is being published can "
      "only\n"
      "be finished after the broker's confirm; the command waits up to 2 s for it.\n"
      "With a filter and no --state: only deliveries whose silence is held open." +
          std::string(kFilterHelp));
  add_ids(c, *o);
  add_filter(c, o->filter, false);
  add_bulk_options(c, o->bulk);
  CLI::Option_group& how = *c.add_option_group("how");
  how.add_flag("--succeeded", o->succeeded, "The attempt succeeded");
  how.add_flag("--failed", o->failed, "The attempt failed: next level, or parked");
  how.require_option(1);
  c.add_option("--error", o->error, "The error text, with --failed")->type_name("TEXT");
  c.add_option("--attempt", o->attempt,
               "The attempt that failed, as in retry-attempt (default: the current one)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000));
  add_even_reported(c, *o);
  c.add_option("--executor", o->executor, "Who handled the attempt; recorded in the history")
      ->type_name("ADDRESS");
  add_reason(c, *o);
  c.callback([o, exit] { *exit = run_finish(*o); });
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
