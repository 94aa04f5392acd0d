// rung cancel, discard, reschedule, fire, redrive (and retry), finish: manual changes of tasks, by ids or by
// a filter. decide() says whether a task's state allows the change.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/api/tasks/views.h"
#include "src/cli/shared/bulk_run.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/cli/shared/when.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/machine.h"

namespace rung::cli {
namespace {

struct ChangeOptions {
  Common common;
  std::vector<std::string> ids;
  FilterOptions filter;
  BulkOptions bulk;
  std::string reason, error, executor, delay, at;
  Target elsewhere;
  bool succeeded = false, failed = false, even_reported = false, even_replaced = false;
  int attempt = 0;
};

struct Change {
  TaskId id;
  Decision decision;
  std::optional<TaskRow> row;  // after the change; nullopt if there is no such task
};

Exit exit_of(const Change& change) {
  if (!change.row) return kNotFound;
  return change.decision.verdict == Decision::Verdict::refused ? kUserError : kSuccess;
}

// Of several: a user error takes precedence over not found.
Exit worse_of(Exit a, Exit b) {
  const auto weight = [](Exit e) { return e == kUserError ? 2 : e == kNotFound ? 1 : 0; };
  return weight(a) >= weight(b) ? a : b;
}

// The rows after the changes. Fewer changes than ids: `stopped` says why.
Done<Change> apply(Session& session, const std::vector<TaskId>& ids, const Happening& what,
                   const std::string& reason) {
  Done<Decision> decided = session.service.changes->change(ids, what, reason);
  Done<Change> done;
  std::optional<Error> unread;  // after it the others would fail, too, each after a while
  for (std::size_t i = 0; i < decided.results.size(); ++i) {
    Decision& decision = decided.results[i];
    Result<std::optional<TaskRow>> row = std::nullopt;
    if (unread) {
      row = tl::unexpected(*unread);
    } else {
      row = session.service.tasks->find(ids[i]);
    }
    if (!row) unread = row.error();
    // Report a change even if the row cannot be read again; then only the node's name is missing.
    if (!row && decision.verdict == Decision::Verdict::applied) row = TaskRow{decision.task, {}, {}};
    if (row) {
      done.results.push_back({ids[i], std::move(decision), *std::move(row)});
    } else {
      done.stopped = unread;
    }
  }
  if (!decided.stopped) return done;
  done.stopped = std::move(decided.stopped);
  const std::size_t at = decided.results.size();
  if (ids.size() > 1 && at > 0)
    done.stopped->message += fmt::format("; task {} may have been changed, {} after it were not tried",
                                         ids[at].str(), ids.size() - at - 1);
  return done;
}

void print_change(const Change& change, Session& session) {
  if (!change.row) {
    report_error(kNotFound, "no task with retry-id " + change.id.str());
    return;
  }
  if (change.decision.verdict == Decision::Verdict::refused) {
    report_error(kUserError, change.id.str() + ": " + change.decision.reason);
    return;
  }
  const std::string state_text = next_of(session, *change.row);
  const bool before = change.decision.verdict == Decision::Verdict::stale;
  print(fmt::format("{}  {}{}\n", change.id.str(), one_line(state_text),
                    before ? " (nothing to do: " + change.decision.reason + ")" : ""));
}

Json change_json(const Change& change) {
  const char* result = "applied";
  if (change.decision.verdict == Decision::Verdict::stale) result = "nothing to do";
  if (change.decision.verdict == Decision::Verdict::refused) result = "refused";
  if (!change.row) result = "not found";
  return {{"retry_id", change.id.str()},
          {"result", result},
          {"reason", api::text_or_null(change.decision.reason)},
          {"task", change.row ? api::to_json(*change.row) : Json()}};
}

int run(Session& session, const ChangeOptions& options, const Happening& what) {
  if (session.service.tasks == nullptr) {
    if (const int code = open_service(options.common, session); code != kSuccess) return code;
  }
  std::vector<TaskId> ids;
  if (const int code = find_ids(session, options.ids, ids); code != kSuccess) return code;
  const Done<Change> done = apply(session, ids, what, clean_utf8(options.reason, kErrorBytes));
  if (done.results.empty() && done.stopped) return report_error(*done.stopped);
  if (auto now = session.service.tasks->now()) session.now = *now;
  Exit exit = kSuccess;
  Json json = {{"results", Json::array()}};
  for (const Change& change : done.results) {
    exit = worse_of(exit, exit_of(change));
    if (options.common.json) {
      json["results"].push_back(change_json(change));
    } else {
      print_change(change, session);
    }
  }
  if (options.common.json) print_json(json);
  return done.stopped ? report_error(*done.stopped) : static_cast<int>(exit);
}

// By ids, or by a filter.
int run_by_ids_or_filter(const ChangeOptions& o, const Happening& what, BulkAction action) {
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
    NewBulk bulk;
    bulk.action = action;
    bulk.reason = clean_utf8(o.reason, kErrorBytes);
    bulk.elsewhere = o.elsewhere;
    bulk.even_reported = o.even_reported;
    return make_bulk(o.common, o.filter, o.bulk, std::move(bulk));
  }
  if (o.bulk.dry_run || o.bulk.rate > 0 || o.bulk.limit > 0)
    return report_error(kUserError, "--dry-run, --rate and --limit need a filter, not retry-ids");
  if (o.bulk.care.any() || !o.bulk.watch.empty() || !o.bulk.stop_on_failures.empty())
    return report_error(kUserError,
                        "--canary, --watch, --ramp and --stop-on-failures need a filter, not retry-ids");
  Session session;
  return run(session, o, what);
}

int run_reschedule(const ChangeOptions& o) {
  event::Reschedule to;
  Session session;
  if (!o.delay.empty()) {
    const auto delay = levels::parse_duration(o.delay);
    if (!delay) return report_error(kUserError, "--delay: " + delay.error());
    to.delay = *delay;
  } else {
    if (const int code = open_service(o.common, session); code != kSuccess) return code;
    const auto at = parse_when(o.at, session.now, Direction::future);
    if (!at) return report_error(kUserError, "--at: " + at.error());
    to.at = *at;
  }
  return run(session, o, to);
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
  return run_by_ids_or_filter(o, event::Finish{o.succeeded, o.error, o.executor, o.attempt, o.even_reported},
                              o.succeeded ? BulkAction::succeed : BulkAction::fail);
}

CLI::Option& add_ids(CLI::App& command, ChangeOptions& options) {
  add_utc(command);
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
    "Ctrl-C pauses it (see rung bulk resume). If this process dies, a sidecar completes the change.";

void add_reason(CLI::App& c, ChangeOptions& o, const char* what = "Why; recorded in the task's audit") {
  c.add_option("--reason", o.reason, what)->type_name("TEXT");
}
constexpr const char* kReasonToo = "Why; recorded in the task's audit, and as its last error";

void add_even_reported(CLI::App& c, ChangeOptions& o) {
  c.add_flag("--even-reported", o.even_reported, "Also tasks whose success was reported, not only presumed");
}

void add_cancel(CLI::App& app, int* exit) {
  auto o = std::make_shared<ChangeOptions>();
  CLI::App& c = add_service_command(
      app, "cancel", "Cancels scheduled tasks: they are not sent again",
      std::string(
          "Examples:\n"
          "  rung cancel 249107395289088\n"
          "  rung cancel 249107395289088 249107395289089 --reason \"order withdrawn\"\n"
          "  rung cancel --tag coupon.reminder --due-before 1d --dry-run\n"
          "Only scheduled tasks can be cancelled. Once cancel has returned, the message is not published.") +
          kFilterHelp,
      o->common);
  add_selection(c, *o);
  add_reason(c, *o, kReasonToo);
  c.callback([o, exit] { *exit = run_by_ids_or_filter(*o, event::Cancel{}, BulkAction::cancel); });
}

void add_discard(CLI::App& app, int* exit) {
  auto o = std::make_shared<ChangeOptions>();
  CLI::App& c = add_service_command(
      app, "discard", "Gives up parked or scheduled tasks: they are not sent again",
      std::string("Examples:\n"
                  "  rung discard 249107395289088 --reason \"refunded by hand\"\n"
                  "  rung discard --queue orders --created-before 30d --yes    parked tasks, by a filter\n"
                  "A discarded task keeps its history until `retention` deletes it.") +
          kFilterHelp,
      o->common);
  add_selection(c, *o);
  add_reason(c, *o, kReasonToo);
  c.callback([o, exit] { *exit = run_by_ids_or_filter(*o, event::Discard{}, BulkAction::discard); });
}

void add_fire(CLI::App& app, int* exit) {
  auto o = std::make_shared<ChangeOptions>();
  CLI::App& c = add_service_command(app, "fire", "Sends scheduled tasks now",
                                    std::string("Examples:\n"
                                                "  rung fire 249107395289088\n"
                                                "  rung fire --queue orders --rate 50 --yes") +
                                        kFilterHelp,
                                    o->common);
  add_selection(c, *o);
  add_reason(c, *o);
  c.callback([o, exit] { *exit = run_by_ids_or_filter(*o, event::Fire{}, BulkAction::fire); });
}

// `name`: redrive, or retry, which is the same.
void add_redrive(CLI::App& app, int* exit, const std::string& name) {
  auto o = std::make_shared<ChangeOptions>();
  const std::string rung = "  rung " + name;
  CLI::App& c = add_service_command(
      app, name,
      name == "retry" ? "Same as redrive"
                      : "Sends tasks now: parked ones and presumed successes start again at level 1",
      "Examples:\n" + rung + " 249107395289088\n" + rung +
          " --queue orders --error timeout          parked tasks, by a filter\n" + rung +
          " --queue orders --error '/HTTP 5[0-9][0-9]/' --limit 10 --reason \"bank is back\"\n" + rung +
          " --queue orders --dry-run --by error_type\n" + rung +
          " --cause 9f2c41d07ab3 --canary 10 --watch 2m --ramp --rate 100 --stop-on-failures 5%\n" + rung +
          " --queue orders --state awaiting         deliveries whose silence is held open\n" + rung +
          " 249107395289088 --to-queue orders.by-hand\n" + rung +
          " --queue orders --to-exchange shop --to-routing-key order.new\n"
          "A presumed success can be sent again, too; a reported one only with --even-reported." +
          kFilterHelp,
      o->common);
  add_selection(c, *o);
  add_care_options(c, o->bulk);
  CLI::Option* queue =
      c.add_option("--to-queue", o->elsewhere.queue, "Send to this queue instead")->type_name("NAME");
  c.add_option("--to-exchange", o->elsewhere.exchange, "Send to this exchange instead")
      ->type_name("NAME")
      ->excludes(queue);
  c.add_option("--to-routing-key", o->elsewhere.routing_key, "The routing key for --to-exchange")
      ->type_name("KEY")
      ->excludes(queue);
  add_reason(c, *o);
  add_even_reported(c, *o);
  c.add_flag("--even-replaced", o->even_replaced,
             "With retry-ids: also tasks that an edited copy has replaced");
  c.callback([o, exit] {
    *exit = run_by_ids_or_filter(*o, event::Redrive{o->elsewhere, o->even_reported, o->even_replaced},
                                 BulkAction::redrive);
  });
}

void add_reschedule(CLI::App& app, int* exit) {
  auto o = std::make_shared<ChangeOptions>();
  CLI::App& c = add_service_command(app, "reschedule", "Changes the due time of scheduled tasks",
                                    "Examples:\n"
                                    "  rung reschedule 249107395289088 --delay 2h\n"
                                    "  rung reschedule 249107395289088 --at 2026-11-21T17:05:00Z",
                                    o->common);
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
  CLI::App& c = add_service_command(
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
          std::string(kFilterHelp),
      o->common);
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
  add_cancel(app, exit);
  add_discard(app, exit);
  add_reschedule(app, exit);
  add_fire(app, exit);
  add_redrive(app, exit, "redrive");
  add_redrive(app, exit, "retry");
  add_finish(app, exit);
}

}  // namespace rung::cli
