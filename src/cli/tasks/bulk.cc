// Actions on many tasks, created from the command line or by the API, and carried out by the sidecars: their
// ids and their progress are in the database. rung bulk lists and controls them.
#include "src/cli/tasks/bulk.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "levels/duration.h"
#include "src/api/base/message.h"
#include "src/api/tasks/filter.h"
#include "src/api/tasks/views.h"
#include "src/bridge/changes/bulk.h"
#include "src/cli/shared/options.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/hex.h"
#include "src/core/base/utf8.h"

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

// "[#####.....]", `cells` wide.
std::string bar(std::int64_t done, std::int64_t total, int cells) {
  const std::int64_t full = total > 0 ? std::clamp<std::int64_t>(done * cells / total, 0, cells) : cells;
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(cells - full), '.') + "]";
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
  if (stage == "all" && text_of(before, "stage") != "all") return std::string(bridge::kCanaryPassed);
  const Json& sent = part_of(bulk, "outcomes");
  if (stage != "watching" || !is_running(bulk) || number_of(sent, "failed") > 0) return {};
  Bulk waits;
  if (part_of(bulk, "watch_ms").is_number()) waits.care.watch = Ms{number_of(bulk, "watch_ms")};
  return bridge::waits_for(
      waits, {number_of(sent, "sent"), number_of(sent, "succeeded"), number_of(sent, "not_yet_sent"),
              number_of(sent, "open"), 0, text_of(sent, "unread")});
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

// Progress on stderr: a bar on a terminal, otherwise a line from time to time.
class Progress {
 public:
  Progress(const Json& bulk, const Clock& clock)
      : what_(text_of(bulk, "action")), clock_(clock), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (terminal_) tell("");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const Json& bulk) {
    const std::int64_t done = number_of(bulk, "done"), total = number_of(bulk, "total");
    const std::string count = fmt::format("{} of {}", done, total);
    if (terminal_) {
      const std::string line = "\r" + what_ + " " + bar(done, total, 30) + " " + count + "\x1b[K";
      std::fwrite(line.data(), 1, line.size(), stderr);
    } else if (clock_.boot() - shown_ >= kBetweenLines) {
      tell(what_ + ": " + count);
      shown_ = clock_.boot();
    }
  }

 private:
  const std::string what_;
  const Clock& clock_;
  const bool terminal_;
  BootMs shown_ = clock_.boot();
};

// Returns when the bulk is no longer running, or has been paused by Ctrl-C.
Result<Json> watch(Session& session, Json bulk) {
  catch_interrupts();
  const Clock& clock = session.clock;
  Progress progress(bulk, clock);
  std::string lack, news, held;
  BootMs moved{};
  while (is_running(bulk) && interrupted == 0) {
    progress.show(bulk);
    if (clock.boot() - moved >= kBetweenLines) {
      tell_if_new(lack, lack_of_sidecars(session));
      moved = clock.boot();
    }
    std::this_thread::sleep_for(kLook);
    auto now = session.api->get(bulk_path(text_of(bulk, "id")));
    if (!now && interrupted == 0) return now;
    if (!now) break;  // try to pause it, all the same
    tell_if_new(news, one_line(news_of(bulk, *now)));
    if (part_of(*now, "done") != part_of(bulk, "done")) moved = clock.boot();
    bulk = *std::move(now);
    tell_if_new(held, held_of(bulk),
                fmt::format("{} not sent yet:", number_of(part_of(bulk, "outcomes"), "not_yet_sent")));
  }
  progress.show(bulk);
  return interrupted == 0 ? std::move(bulk) : control_bulk(session, text_of(bulk, "id"), "pause");
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

// Of a redrive for which nothing is left: another one has the tasks.
int report_none(Session& session, const Json& request, const Json& ended) {
  const std::int64_t taken =
      request["action"] == "redrive" ? number_of(need(dry_run(session, request)), "count") : 0;
  if (taken > 0)
    throw Failed(kUserError, fmt::format("the {} matching {} in a redrive that is running or paused: "
                                         "rung bulk list; rung bulk resume or abort BULK",
                                         taken, taken == 1 ? "task is" : "tasks are"));
  print_answer(ended, [](const Json& bulk) {
    return "no tasks match (" + one_line(filter_flags(part_of(bulk, "filter"))) + ")\n";
  });
  suggest_queue(session, text_of(request["filter"], "queue"));
  return kSuccess;
}

// Why the states of the filter make no sense for the action, and what would; "" if they do.
std::string refused_filter(const std::string& states, BulkAction action) {
  NewBulk asked;
  asked.action = action;
  asked.filter = api::filter_of({{"state", states}});
  std::string why = refused_states(asked);
  if (why.empty()) return {};
  why += ": leave --state out";
  const auto is_parked = [](State state) { return state == State::parked; };
  if (std::ranges::any_of(asked.filter.states, is_parked)) why += "; `rung redrive` sends parked tasks again";
  return why;
}

int print_result(const Json& bulk) {
  if (given().json) print_json(bulk);
  const std::string state = text_of(bulk, "state"), id = bulk_name(bulk);
  const std::int64_t done = number_of(bulk, "done"), total = number_of(bulk, "total");
  if (state == "done") {
    // As with a single id: an error if every task was refused.
    if (done > 0 && number_of(bulk, "refused") == done) return report_error(kUserError, outcome_of(bulk));
    if (!given().json) print(outcome_of(bulk) + "\n");
    return kSuccess;
  }
  if (state == "stopped") {
    report_error(kUserError, fmt::format("bulk {} stopped at {} of {}: {}", id, done, total,
                                         text_of(bulk, "stopped_because")));
    return report_error(kUserError, "once that is mended: " + rest_of(bulk));
  }
  if (state == "aborted")
    return report_error(kUserError, fmt::format("bulk {} was aborted at {} of {}", id, done, total));
  return report_error(
      kUserError,
      fmt::format("paused at {} of {}: `rung bulk resume {}` resumes it, `rung bulk abort {}` ends it", done,
                  total, id, id));
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

}  // namespace

std::vector<Field> bulk_filter(BulkAction action) { return conditions(!is_finish(action)); }

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

int make_bulk(const CLI::App& c, BulkAction action, Json request) {
  const bool yes = is_on(c, "--yes"), dry = is_on(c, "--dry-run");
  const std::vector<Field> conditions = bulk_filter(action);
  if (!dry && !yes && !can_ask())
    throw Failed(kUserError,
                 "changing many tasks needs confirmation, and there is no terminal: use --yes (--dry-run "
                 "only counts)");
  Json known = Json::object();
  read_fields(c, conditions, EpochMs{}, known);
  if (const auto why = refused_filter(text_of(known, "state"), action); !why.empty())
    throw Failed(kUserError, why);
  Session session(value_of(c, "--queue"));
  NewBulk asked;
  asked.action = action;
  api::FieldErrors wrong;
  asked.filter = api::read_filter(read_params(c, conditions, session.now), "", wrong);
  if (!wrong.empty()) throw Failed(error_of({400, api::Problem(wrong).json("")}));
  request["action"] = to_word(action);
  request["filter"] = api::filter_json(of_bulk(asked));
  read_fields(c, bulk_fields(action), session.now, request);
  if (request.erase("careful") > 0) {
    Json careful = {{"canary", 10}, {"rate", 100}, {"stop_on_failures", "5%"}};
    careful.update(request);
    request = std::move(careful);
  }
  Json shown = request["filter"];
  if (request.contains("limit")) shown["limit"] = dump(request["limit"]);
  if (action == BulkAction::redrive || dry || !yes) {
    const auto counted = dry_run(session, request, value_of(c, "--by"));
    if (!counted && (dry || !yes || !counted.error().is_transient())) throw Failed(counted.error());
    if (!counted) tell("rung: what has expired is not known: " + one_line(counted.error().message));
    if (counted) tell_notes(*counted);
    if (dry && given().json) return print_json(*counted);
    if (dry) return print_matching(*counted, shown);
    if (!yes) confirm(session, *counted, shown, request);
  }
  Json made = need(session.api->post("/v1/bulks", request));
  if (number_of(made, "total") == 0)
    return report_none(session, request, need(control_bulk(session, text_of(made, "id"), "abort")));
  tell(fmt::format("rung: {}, bulk {}", summary_of(session, made), bulk_name(made)));
  return watch_bulk(session, std::move(made));
}

// ---------------------------------------------------------------------------------------------- rung bulk

namespace {

std::string bulks_text(Session& session, const Json& page) {
  using enum Table::Align;
  Table table({{"BULK", right, 0, 0, text_cell("id")},
               {"ACTION", left, 0, 0, text_cell("action")},
               {"STATE", left, 0, 0, text_cell("state")},
               {"DONE", right, 0, 0, number_cell("done")},
               {"TOTAL", right, 0, 0, number_cell("total")},
               {"REFUSED", right, 0, 0, number_cell("refused")},
               {"CREATED", left, 0, 0, time_cell("created_at", session.now)},
               {"WHO", left, 0, 0, text_cell("who")},
               {"RUNNER", left, 0, 0, text_cell("runner")},
               {"FILTER", left, 0, 0, [&](const Json& bulk) { return tasks_of(session, bulk); }}},
              part_of(page, "bulks"));
  return (table.empty() ? "no bulks yet\n" : table.str()) + more_text("more bulks", page);
}

std::string canary_text(const Json& bulk) {
  const Json& watch = part_of(bulk, "watch_ms");
  return fmt::format("{}, {}", number_of(bulk, "canary"),
                     watch.is_number()
                         ? "watched for " + levels::format_duration(Ms{number_of(bulk, "watch_ms")})
                         : "watched for as long as the queue's silence lasts");
}

std::string show_text(Session& session, const Json& b) {
  const Json& counts = part_of(b, "outcomes");
  const auto at = [&](const char* name) { return moment_of(b, name, session.now); };
  std::string out;
  const auto field = [&](std::string_view label, std::string_view text) { out += detail(label, text); };
  field("bulk", text_of(b, "id"));
  field("action", text_of(b, "action"));
  field("state", text_of(b, "state"));
  field("tasks", tasks_of(session, b));
  field("reason", text_of(b, "reason"));
  if (Json to = part_of(b, "elsewhere"); to.is_object()) {
    to["by_exchange"] = true;
    field("to", destination(to));
  }
  if (const double rate = real_of(b, "rate"); rate > 0)
    field("rate", fmt::format("{} per second{}", rate, flag_of(b, "ramp") ? ", ramping up from 1" : ""));
  if (number_of(b, "canary") > 0) field("canary", canary_text(b));
  if (const std::string share = text_of(b, "stop_on_failures"); !share.empty())
    field("stops above", share + " failures");
  const std::int64_t done = number_of(b, "done"), total = number_of(b, "total");
  field("progress", bar(done, total, 30) + fmt::format(" {} of {}", done, total));
  field("outcome", outcome_of(b));
  if (number_of(counts, "sent") > 0)
    field("since then", fmt::format("{} succeeded, {} failed, {} without an answer, {} not sent yet{}",
                                    number_of(counts, "succeeded"), number_of(counts, "failed"),
                                    number_of(counts, "open"), number_of(counts, "not_yet_sent"),
                                    done > api::kOutcomesCounted ? " (of the latest)" : ""));
  for (const Json& gate : part_of(counts, "held")) field("held", held_text(gate));
  field("waits", text_of(counts, "unread"));
  field("stopped", text_of(b, "stopped_because"));
  if (text_of(b, "state") == "stopped") field("the rest", rest_of(b));
  if (const std::string why = text_of(b, "changed_because"); !at("changed_at").empty())
    field("changed", at("changed_at") + " by " + text_of(b, "changed_by") + (why.empty() ? "" : ": " + why));
  field("who", text_of(b, "who"));
  field("runner", text_of(b, "runner"));
  field("created", at("created_at"));
  field("finished", at("finished_at"));
  return out;
}

// The answer, or that there is no such bulk.
Json need_bulk(Result<Json> answer, const std::string& id) {
  if (!answer && answer.error().kind == Error::Kind::not_found)
    throw Failed(kNotFound, fmt::format("bulk {} does not exist", id));
  return need(std::move(answer));
}

// Pause, resume and abort; `to`: the state that it leads to. A bulk that has ended does not change, which is
// an error.
int control(const std::string& id, const std::string& action, const std::string& to, const Json& request,
            bool detach) {
  Session session;
  const bool put_back = request.contains("put_back");
  const Json b = need_bulk(control_bulk(session, id, action, request), id);
  const std::string state = text_of(b, "state");
  if (state == to && action == "resume" && !detach) return watch_bulk(session, b);
  if (given().json) print_json(b);
  if (state != to && !put_back)
    throw Failed(kUserError, fmt::format("bulk {} has already ended: it is {}", id, state));
  if (given().json) return kSuccess;
  print(action == "resume" ? fmt::format("bulk {} will be resumed by a sidecar\n", id)
                           : fmt::format("bulk {} is {} at {} of {}\n", id, one_line(state),
                                         number_of(b, "done"), number_of(b, "total")));
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

void add_bulk(CLI::App& app) {
  CLI::App& bulk = add_command(
      app, "bulk", "Shows, pauses, resumes or aborts changes of many tasks",
      "rung cancel, discard, fire, redrive and finish create a bulk when given a filter; so does the HTTP "
      "API.\n"
      "\nExamples:\n"
      "  rung bulk list\n"
      "  rung bulk resume 7",
      {}, Takes::none);
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
            return print_answer(need_bulk(session.api->get("/v1/bulks/" + id), id),
                                [&](const Json& one) { return show_text(session, one); });
          });

  // What each of these takes besides the reason.
  static constexpr Field kReason{"reason", Is::reason, "TEXT", "Why; recorded in the audit"};
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
