// What people change of tasks: rung cancel, discard, reschedule, fire, redrive (and retry), finish, by ids or
// by a filter. decide() says whether a task's state allows it. With a filter it is a bulk, which the sidecars
// carry out: its ids and its progress are in the database. rung bulk lists and controls them.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "levels/duration.h"
#include "src/api/tasks/tasks.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"
#include "src/core/base/hex.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/machine.h"
#include "src/store/bulks.h"

namespace rung::cli {
namespace {

constexpr Ms kBetweenLines{5000};
constexpr Ms kLook{300};  // how often to look at a bulk

constexpr Field kBulk[] = {
    {"limit", Is::number, "N", "With a filter: at most so many tasks, those received first", "", 1,
     api::kMostCounted},
    {"rate", Is::real, "N", "With a filter: maximum rate, in tasks per second", "", kLeastBulkRate, 1e6}};
constexpr Field kCare[] = {
    {"canary", Is::number, "N", "With a filter: send so many first, and the others only if these succeed", "",
     1, kMostCanary},
    {"watch", Is::duration, "DURATION",
     "How long to wait for an answer to each task of the canary; then silence counts as the queue's "
     "config says (default: as long as the queue's own silence)",
     "--wait-answer,--watch"},
    {"ramp", Is::flag, "", "Begin at 1 per second and double every 10 s, up to --rate (default: 100)"},
    {"stop_on_failures", Is::text, "PERCENT",
     "Stop if more than this share of the last 10,000 sent has failed, e.g. 5%"},
    {"careful", Is::flag, "", "Where not given otherwise: --canary 10 --rate 100 --stop-on-failures 5%"}};

volatile std::sig_atomic_t interrupted = 0;

// The first Ctrl-C sets a flag; the second ends the program.
void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

bool is_running(const Json& bulk) { return text_of(bulk, "state") == "running"; }
std::string bulk_path(const std::string& id) { return "/v1/bulks/" + percent_encode(id); }
std::string bulk_name(const Json& bulk) { return one_line(text_of(bulk, "id")); }
std::string progress_of(const Json& bulk) {
  return fmt::format("{} of {}", number_of(bulk, "done"), number_of(bulk, "total"));
}

// The filter as flags, and what fails in its cause: "--cause 9f2c41d07ab3: CardError: card declined".
std::string tasks_of(Session& session, const Json& bulk) {
  constexpr std::size_t kNameBytes = 80;
  const Json& filter = part_of(bulk, "filter");
  const std::string flags = filter_flags(filter), id = text_of(filter, "cause");
  if (id.empty()) return flags;
  const auto cause = session.api->get("/v1/causes/" + percent_encode(id));
  return cause ? flags + ": " + clean_utf8(cause_name(*cause), kNameBytes) : flags;
}

// "cancel: 980 of 1000 done, 15 refused: ..., 5 unchanged".
std::string outcome_of(const Json& bulk) {
  const std::int64_t applied = number_of(bulk, "applied"), refused = number_of(bulk, "refused");
  const std::int64_t same = number_of(bulk, "done") - applied - refused;
  std::string text =
      fmt::format("{}: {} of {} done", one_line(text_of(bulk, "action")), applied, number_of(bulk, "total"));
  if (refused > 0) text += fmt::format(", {} refused: their state no longer allowed it", refused);
  if (same > 0) text += fmt::format(", {} unchanged", same);
  return text;
}

// The command for what a stopped bulk has not done.
std::string rest_of(const Json& bulk) {
  const std::string action = text_of(bulk, "action");
  const bool finish = action == "succeed" || action == "fail";
  return fmt::format("rung {}{}{} {}", finish ? "finish --" : "", action, finish ? "ed" : "",
                     filter_flags(part_of(bulk, "filter")));
}

// Pauses, resumes or aborts it: the bulk as it is then. One that has ended keeps its state.
Result<Json> control_bulk(Session& session, const std::string& id, const std::string& action,
                          const Json& body = Json::object()) {
  auto answer = session.api->call("POST", bulk_path(id) + "/" + action, &body, false);
  if (answer && answer->status == 409) return session.api->get(bulk_path(id));
  return Api::good(std::move(answer));
}

// What holds back the tasks that it has made due; "" = nothing.
std::string held_of(const Json& bulk) {
  std::string text;
  for (const Json& gate : part_of(part_of(bulk, "outcomes"), "held"))
    text += "\nrung: " + one_line(held_text(gate));
  return text;
}

// What a careful redrive waits for, or that its canary has succeeded; "" = nothing.
std::string news_of(const Json& before, const Json& bulk) {
  const std::string stage = text_of(bulk, "stage");
  if (stage == "all" && text_of(before, "stage") != "all") return "canary succeeded: the others follow";
  if (stage != "watching" || !is_running(bulk)) return {};
  const Json& sent = part_of(bulk, "outcomes");
  const std::string unread = text_of(sent, "unread");
  return fmt::format("canary: {} of {} succeeded, {} not sent yet, {} without an answer so far{}",
                     number_of(sent, "succeeded"), number_of(sent, "sent"), number_of(sent, "not_yet_sent"),
                     number_of(sent, "open"), unread.empty() ? "" : "; " + unread);
}

// A warning that no sidecar is running to carry out the bulk; "" if one is, or if that is unknown.
std::string lack_of_sidecars(Session& session) {
  const auto page = read_page(*session.api, "/v1/nodes", {}, "nodes", kRowsAPage, "");
  if (!page) return {};
  for (const Json& node : part_of(*page, "nodes")) {
    if (text_of(node, "state") == "live") return {};
  }
  return "no sidecar is running: the bulk waits for one (rung run); Ctrl-C pauses it";
}

// `told`: what was said of it before. `first`: what is said with it, and may change by itself.
void tell_if_new(std::string& told, std::string text, const std::string& first = {}) {
  if (!text.empty() && text != told) tell("rung: " + first + text);
  told = std::move(text);
}

// Returns when the bulk is no longer running, or has been paused by Ctrl-C. Its progress is on stderr: on a
// terminal a line that changes, otherwise a line from time to time.
Result<Json> watch(Session& session, Json bulk) {
  catch_interrupts();
  const std::string id = text_of(bulk, "id");
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const Clock& clock = session.clock;
  std::string lack, news, held;
  std::optional<Error> lost;
  BootMs moved{}, shown = clock.boot();
  const auto show = [&] {
    const std::string line = one_line(text_of(bulk, "action")) + ": " + progress_of(bulk);
    if (terminal) {
      std::fputs(("\r" + line + "\x1b[K").c_str(), stderr);
    } else if (clock.boot() - shown >= kBetweenLines) {
      tell(line);
      shown = clock.boot();
    }
  };
  while (is_running(bulk) && interrupted == 0) {
    show();
    if (clock.boot() - moved >= kBetweenLines) {
      tell_if_new(lack, lack_of_sidecars(session));
      moved = clock.boot();
    }
    std::this_thread::sleep_for(kLook);
    auto now = session.api->get(bulk_path(id));
    if (!now) {
      lost = now.error();
      break;
    }
    tell_if_new(news, one_line(news_of(bulk, *now)));
    if (part_of(*now, "done") != part_of(bulk, "done")) moved = clock.boot();
    bulk = *std::move(now);
    tell_if_new(held, held_of(bulk),
                fmt::format("{} not sent yet:", number_of(part_of(bulk, "outcomes"), "not_yet_sent")));
  }
  show();
  if (terminal) tell("");
  if (interrupted != 0) return control_bulk(session, id, "pause");  // also one that was lost
  if (lost) return tl::unexpected(*std::move(lost));
  return bulk;
}

// "redrive 7 tasks (--cause 9f2c41d07ab3: CardError: card declined)"
std::string summary_of(Session& session, const Json& bulk) {
  const std::int64_t total = number_of(bulk, "total");
  return fmt::format("{} {} {} ({})", one_line(text_of(bulk, "action")), total, total == 1 ? "task" : "tasks",
                     one_line(tasks_of(session, bulk)));
}

// How many tasks match, and what a person is told before a redrive.
Result<Json> dry_run(Session& session, Json request, const std::string& by = {}) {
  request["dry_run"] = true;
  if (!by.empty()) request["by"] = by;
  return session.api->post("/v1/bulks", request);
}

// Asks before anything is stored: a prompt can be left by Ctrl-C, or by closing the terminal. Then no more
// tasks are taken than were confirmed.
void confirm(Session& session, const Json& counted, const Json& filter, Json& request) {
  const std::int64_t total = number_of(counted, "count");
  if (total == 0) return;
  const bool more = flag_of(counted, "or_more");
  const Json shown = {{"action", request["action"]}, {"filter", filter}, {"total", total}};
  if (!says_yes((more ? "at least: " : "") + summary_of(session, shown) + "? [y/N] "))
    throw Failed(kUserError, "nothing was changed");
  if (!more) request["limit"] = total;
}

int print_matching(const Json& counted, const Json& filter) {
  const std::int64_t total = number_of(counted, "count");
  print(fmt::format("{}{} {} ({}): nothing was changed\n", flag_of(counted, "or_more") ? "at least " : "",
                    total, total == 1 ? "task matches" : "tasks match", one_line(filter_flags(filter))));
  if (counted.contains("by")) print("\n" + counts_text(counted));
  return kSuccess;
}

// What cannot be sent, and what may be too old to be wanted.
void tell_notes(const Json& counted) {
  if (const auto left_out = number_of(counted, "without_body"); left_out > 0)
    tell(fmt::format("rung: {} left out: the database has no body of {}; `rung show` says where it is",
                     left_out == 1 ? "1 task is" : fmt::format("{} tasks are", left_out),
                     left_out == 1 ? "it" : "them"));
  for (const Json& one : part_of(counted, "expired"))
    tell(one_line(fmt::format("rung: {} of queue {} first failed more than {} ago (give_up.after)",
                              number_of(one, "tasks"), text_of(one, "queue"),
                              levels::format_duration(Ms{number_of(one, "after_ms")}))));
}

// `counted`: what matched. Of a redrive for which nothing is left, another one has the tasks.
int report_none(Session& session, const Json& counted, const Json& ended) {
  if (const std::int64_t taken = number_of(counted, "count"); taken > 0)
    throw Failed(kUserError, fmt::format("the {} matching {} in a redrive that is running or paused: "
                                         "rung bulk list; rung bulk resume or abort BULK",
                                         taken, taken == 1 ? "task is" : "tasks are"));
  const Json& filter = part_of(ended, "filter");
  print_answer(ended,
               [&](const Json&) { return "no tasks match (" + one_line(filter_flags(filter)) + ")\n"; });
  suggest_queue(session, text_of(filter, "queue"));
  return kSuccess;
}

int print_result(const Json& bulk) {
  if (given().json) print_json(bulk);
  const std::string state = text_of(bulk, "state"), id = bulk_name(bulk), at = progress_of(bulk);
  if (state == "done") {
    // As with a single id: an error if every task was refused.
    const std::int64_t done = number_of(bulk, "done");
    if (done > 0 && number_of(bulk, "refused") == done) return report_error(kUserError, outcome_of(bulk));
    if (!given().json) print(outcome_of(bulk) + "\n");
    return kSuccess;
  }
  if (state == "stopped") {
    report_error(kUserError,
                 fmt::format("bulk {} stopped at {}: {}", id, at, text_of(bulk, "stopped_because")));
    return report_error(kUserError, "once that is mended: " + rest_of(bulk));
  }
  if (state == "aborted") return report_error(kUserError, fmt::format("bulk {} was aborted at {}", id, at));
  return report_error(
      kUserError,
      fmt::format("paused at {0}: `rung bulk resume {1}` resumes it, `rung bulk abort {1}` ends it", at, id));
}

// Shows its progress until it has ended or is paused, and says if no sidecar runs. Ctrl-C pauses it.
int watch_bulk(Session& session, Json bulk) {
  const std::string id = bulk_name(bulk);
  auto ended = watch(session, std::move(bulk));
  if (ended) return print_result(*ended);
  const int code = report_error(ended.error());
  tell(fmt::format("rung: bulk {0} goes on on the server: `rung bulk pause {0}` pauses it", id));
  return code;
}

// The conditions of its filter.
std::vector<Field> bulk_filter(BulkAction action) {
  // rung finish has an --error for something else.
  return params_of("listTasks", {"sort", "count", "by", is_finish(action) ? "error" : ""});
}

// "rate", "limit", "canary" and others of its request.
std::vector<Field> bulk_fields(BulkAction action) {
  std::vector<Field> fields(std::begin(kBulk), std::end(kBulk));
  if (action == BulkAction::redrive) fields.insert(fields.end(), std::begin(kCare), std::end(kCare));
  return fields;
}

void add_bulk_options(CLI::App& c, BulkAction action) {
  add_fields(c, bulk_filter(action), "Which tasks");
  add_flag(c, "-y,--yes", "With a filter: do not ask for confirmation");
  CLI::Option& dry = add_flag(c, "--dry-run,--count", "With a filter: only count the tasks");
  add_count_by(c)->needs(&dry);
  add_fields(c, kBulk);
  if (action == BulkAction::redrive) add_fields(c, kCare, "How carefully");
}

// Counts the tasks that match, asks for confirmation (unless --yes), stores their ids, and watches.
// `request`: for POST /v1/bulks; the filter and the fields are added.
int make_bulk(const CLI::App& c, BulkAction action, Json request) {
  const bool yes = is_on(c, "--yes"), dry = is_on(c, "--dry-run");
  if (!dry && !yes && !can_ask())
    throw Failed(kUserError,
                 "changing many tasks needs confirmation, and there is no terminal: use --yes (--dry-run "
                 "only counts)");
  Session session(value_of(c, "--queue"));
  NewBulk asked;
  asked.action = action;
  asked.filter = api::filter_of(read_params(c, bulk_filter(action), session.now));
  request["action"] = to_word(action);
  request["filter"] = api::filter_json(of_bulk(asked));
  read_fields(c, bulk_fields(action), session.now, request);
  if (request.erase("careful") > 0) {
    Json careful = {{"canary", 10}, {"rate", 100}, {"stop_on_failures", "5%"}};
    careful.update(request);
    request = std::move(careful);
  }
  Json shown = request["filter"], counted;
  if (request.contains("limit")) shown["limit"] = dump(request["limit"]);
  if (action == BulkAction::redrive || dry || !yes) {
    auto answer = dry_run(session, request, value_of(c, "--by"));
    if (!answer && (dry || !yes || !answer.error().is_transient())) throw Failed(answer.error());
    if (!answer) tell("rung: what has expired is not known: " + one_line(answer.error().message));
    if (answer) counted = *std::move(answer);
    tell_notes(counted);
    if (dry && given().json) return print_json(counted);
    if (dry) return print_matching(counted, shown);
    if (!yes) confirm(session, counted, shown, request);
  }
  Json made = need(session.api->post("/v1/bulks", request));
  if (number_of(made, "total") == 0)
    return report_none(session, action == BulkAction::redrive ? counted : Json(),
                       need(control_bulk(session, text_of(made, "id"), "abort")));
  tell(fmt::format("rung: {}, bulk {}", summary_of(session, made), bulk_name(made)));
  return watch_bulk(session, std::move(made));
}

// ----------------------------------------------------------------------------------------- of some, by ids

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
    "\nWith a filter (as in rung list) it acts on all tasks that match now, and asks first unless\n"
    "--yes is given. A sidecar carries it out; Ctrl-C pauses it (see rung bulk resume).";

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
  Json elsewhere = Json::object();
  read_fields(c, kTarget, EpochMs{}, elsewhere);
  return change_any(c, kRedrive, {"redrive"}, BulkAction::redrive, elsewhere);
}

int finish(const CLI::App& c) {
  const bool succeeded = c.count("--succeeded") > 0;
  return change_any(
      c, kFinish,
      {"finish", {{"result", succeeded ? "succeeded" : "failed"}}, succeeded || c.count("--attempt") > 0},
      succeeded ? BulkAction::succeed : BulkAction::fail);
}

// ---------------------------------------------------------------------------------------------- rung bulk

std::string bulks_text(Session& session, const Json& page) {
  using enum Table::Align;
  Table table({{"BULK", right, 0, 0, text_cell("id")},
               {"ACTION", left, 0, 0, text_cell("action")},
               {"STATE", left, 0, 0, text_cell("state")},
               {"DONE", right, 0, 0, text_cell("done")},
               {"TOTAL", right, 0, 0, text_cell("total")},
               {"REFUSED", right, 0, 0, text_cell("refused")},
               {"CREATED", left, 0, 0, time_cell("created_at", session.now)},
               {"WHO", left, 0, 0, text_cell("who")},
               {"RUNNER", left, 0, 0, text_cell("runner")},
               {"FILTER", left, 0, 0, [&](const Json& bulk) { return tasks_of(session, bulk); }}},
              part_of(page, "bulks"));
  return (table.empty() ? "no bulks yet\n" : table.str()) + more_text("more bulks", page);
}

std::string show_text(Session& session, Json bulk) {
  Json& outcomes = bulk["outcomes"];
  Json held = Json::array();
  for (const Json& gate : part_of(outcomes, "held")) held.push_back(held_text(gate));
  if (outcomes.is_object()) outcomes.erase("held");
  bulk["held"] = std::move(held);
  if (text_of(bulk, "state") == "stopped") bulk["the_rest"] = rest_of(bulk);
  bulk["filter"] = tasks_of(session, bulk);
  return facts_text(bulk, session.now);
}

// Pause, resume and abort; `to`: the state that it leads to. A bulk that has ended does not change, which is
// an error.
int control(const std::string& id, const std::string& action, const std::string& to, const Json& request,
            bool detach) {
  Session session;
  const bool put_back = request.contains("put_back");
  const Json b = need(control_bulk(session, id, action, request));
  const std::string state = text_of(b, "state");
  if (state == to && action == "resume" && !detach) return watch_bulk(session, b);
  if (given().json) print_json(b);
  if (state != to && !put_back)
    throw Failed(kUserError, fmt::format("bulk {} has already ended: it is {}", id, state));
  if (given().json) return kSuccess;
  print(fmt::format("bulk {} is {} at {}\n", id, one_line(state), progress_of(b)));
  if (action != "abort") return kSuccess;
  const auto after = session.api->get("/v1/bulks/" + id);
  const std::int64_t unsent = after ? number_of(part_of(*after, "outcomes"), "not_yet_sent") : 0;
  if (unsent == 0) return kSuccess;
  print(fmt::format("{} of its tasks are scheduled, and still go out", unsent));
  if (text_of(b, "action") == "redrive")
    print(fmt::format(": `rung bulk abort {} --put-back` parks them again", id));
  print("\n");
  return kSuccess;
}

// Adds a command for one bulk, which runs `run(id)`.
CLI::App& add_one(CLI::App& bulk, const std::string& name, const std::string& summary,
                  const std::string& footer,
                  const std::function<int(const std::string& id, const CLI::App& command)>& run) {
  CLI::App& c = add_command(bulk, name, summary, footer,
                            [run](const CLI::App& command) { return run(value_of(command, "ID"), command); });
  add_text(c, "ID", "The bulk's id, as listed by rung bulk list", "INT")
      .required()
      ->check(CLI::TypeValidator<std::int64_t>(""));
  return c;
}

}  // namespace

void add_changes(CLI::App& app) {
  add_action(app, BulkAction::cancel, "Cancels scheduled tasks: they are not sent again",
             "Examples:\n"
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

  static constexpr Field kWhen[] = {
      {"delay", Is::duration, "DURATION", "Due after this time"},
      {"at", Is::future, "TIME", "Due at this time (UTC unless it has an offset)"},
      kReason};
  CLI::App& rescheduled =
      add_change(app, "reschedule", "Changes the due time of scheduled tasks",
                 "Examples:\n"
                 "  rung reschedule 249107395289088 --delay 2h\n"
                 "  rung reschedule 249107395289088 --at 2026-11-21T17:05:00Z",
                 {&kReason, 1}, std::nullopt, [](const CLI::App& command) {
                   const bool safe = command.count("--delay") == 0;
                   return change_by_ids(command, kWhen, {"reschedule", Json::object(), safe});
                 });
  CLI::Option_group& when = *rescheduled.add_option_group("when");
  add_fields(when, std::span(kWhen).first(2));
  when.require_option(1);

  add_action(app, BulkAction::fire, "Sends scheduled tasks now",
             "Examples:\n"
             "  rung fire 249107395289088\n"
             "  rung fire --queue orders --rate 50 --yes",
             kReason);

  CLI::App& redriven = add_change(
      app, "redrive", "Sends tasks now: parked ones and presumed successes start again at level 1",
      "Examples:\n"
      "  rung redrive 249107395289088\n"
      "  rung redrive --queue orders --error timeout          parked tasks, by a filter\n"
      "  rung redrive --queue orders --error '/HTTP 5[0-9][0-9]/' --limit 10 --reason \"bank is back\"\n"
      "  rung redrive --cause 9f2c41d07ab3 --careful\n"
      "  rung redrive --cause 9f2c41d07ab3 --canary 10 --watch 2m --ramp --rate 100 --stop-on-failures "
      "5%\n"
      "  rung redrive 249107395289088 --to-queue orders.by-hand\n"
      "  rung redrive --queue orders --to-exchange shop --to-routing-key order.new\n"
      "A presumed success can be sent again, too; a reported one only with --include-reported.",
      kRedrive, BulkAction::redrive, redrive);
  redriven.alias("retry");
  add_fields(redriven, kTarget, "Where to");
  redriven.get_option("--to-queue")->excludes("--to-exchange")->excludes("--to-routing-key");
  redriven.get_option("--include-replaced")->needs("ID");

  CLI::App& finished = add_change(
      app, "finish", "Reports the result of an attempt on behalf of a consumer",
      "Examples:\n"
      "  rung finish 249107395289088 --succeeded\n"
      "  rung finish 249107395289088 --failed --error \"refused by the bank\" --executor app-3:8080\n"
      "  rung finish 249107395289088 --failed --attempt 2      safe to repeat: fails attempt 2 only\n"
      "  rung finish --queue orders --outcome-unknown --succeeded --reason \"counted in the shop\"\n"
      "A success ends the task; a failure moves it to the next level, also after a presumed success\n"
      "(after a reported one only with --include-reported). An attempt that is being published can\n"
      "only be finished after the broker's confirm; the command waits up to 2 s for it.\n"
      "With a filter and no --state: only deliveries whose silence is held open.",
      kFinish, BulkAction::fail, finish);
  CLI::Option_group& how = *finished.add_option_group("how");
  CLI::Option& succeeded = *add_flag(how, "--succeeded", "The attempt succeeded").disable_flag_override();
  add_flag(how, "--failed", "The attempt failed: next level, or parked").disable_flag_override();
  how.require_option(1);
  for (const char* of_failure : {"--error", "--include-reported"})
    succeeded.excludes(finished.get_option(of_failure));
  // With a filter, --reason is the error text, too.
  for (const char* of_one : {"--error", "--attempt", "--executor"}) finished.get_option(of_one)->needs("ID");
}

void add_bulk(CLI::App& app) {
  CLI::App& bulk = add_command(
      app, "bulk", "Shows, pauses, resumes or aborts changes of many tasks",
      "rung cancel, discard, fire, redrive and finish create a bulk when given a filter; so does the\n"
      "HTTP API.\n"
      "\nExamples:\n"
      "  rung bulk list\n"
      "  rung bulk resume 7",
      {});
  bulk.require_subcommand(1);

  CLI::App& all =
      add_command(bulk, "list", "Lists bulks, newest first", "Examples:\n  rung bulk list --limit 5",
                  [](const CLI::App& c) {
                    Session session("", ConfigFor::reading);
                    return print_answer(read_page_of(c, session, "/v1/bulks", {}, "bulks"),
                                        [&](const Json& bulks) { return bulks_text(session, bulks); });
                  });
  add_page(all, 20);
  add_one(bulk, "show", "Shows one bulk in detail", "Examples:\n  rung bulk show 7",
          [](const std::string& id, const CLI::App&) {
            Session session("", ConfigFor::reading);
            return print_answer(need(session.api->get("/v1/bulks/" + id)),
                                [&](const Json& one) { return show_text(session, one); });
          });

  // What each of these takes besides the reason.
  static constexpr Field kPutBack{
      "put_back", Is::flag, "",
      "Of a redrive, also one that has ended: park what it has made due and is not sent yet"};
  static constexpr Field kRate{"rate", Is::real, "N", "New rate, in tasks per second", "", 0.01, 1e6};
  const auto add_control = [&](const std::string& action, const char* to, const char* summary,
                               const char* footer, std::vector<Field> fields) -> CLI::App& {
    fields.push_back(kReason);
    CLI::App& c = add_one(
        bulk, action, summary, footer, [action, to, fields](const std::string& id, const CLI::App& command) {
          Json request = Json::object();
          read_fields(command, fields, EpochMs{}, request);
          return control(id, action, to, request, action == "resume" && is_on(command, "--detach"));
        });
    add_fields(c, fields);
    return c;
  };
  add_control("pause", "paused", "Pauses a bulk, wherever it runs",
              "Examples:\n  rung bulk pause 7 --reason \"the shop is down\"", {});
  add_control("abort", "aborted", "Ends a bulk; tasks already changed stay changed",
              "Examples:\n"
              "  rung bulk abort 7\n"
              "  rung bulk abort 7 --put-back         what is not sent yet is parked again",
              {kPutBack});
  CLI::App& resume = add_control("resume", "running", "Resumes a bulk and watches it",
                                 "Examples:\n"
                                 "  rung bulk resume 7\n"
                                 "  rung bulk resume 7 --rate 100\n"
                                 "  rung bulk resume 7 --detach           without watching it",
                                 {kRate});
  add_flag(resume, "--detach", "Do not watch it");
}

}  // namespace rung::cli
