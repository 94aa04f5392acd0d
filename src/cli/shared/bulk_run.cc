#include "src/cli/shared/bulk_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "levels/duration.h"
#include "src/api/base/message.h"
#include "src/api/tasks/filter.h"
#include "src/bridge/changes/bulk.h"
#include "src/cli/service/api.h"
#include "src/cli/shared/options.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/hex.h"
#include "src/core/base/utf8.h"

namespace rung::cli {

namespace {

constexpr Ms kBetweenLines{5000};
constexpr Ms kLook{300};  // how often to look at a bulk

volatile std::sig_atomic_t interrupted = 0;

// While an object exists, the first Ctrl-C sets a flag; the second ends the program.
class Interrupts {
 public:
  Interrupts() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before_[i]);
  }
  ~Interrupts() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

 private:
  static constexpr std::array<int, 2> kSignals{SIGINT, SIGTERM};
  std::array<struct sigaction, 2> before_{};
};

void sleep_interruptibly(const Clock& clock, Ms most) {
  const BootMs until = clock.boot() + most;
  while (interrupted == 0 && clock.boot() < until)
    std::this_thread::sleep_for(std::min(until - clock.boot(), Ms{100}));
}

void print_error_line(const std::string& text) {
  const std::string line = text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

bool is_running(const Json& bulk) { return text_of(bulk, "state") == "running"; }
std::string bulk_path(const std::string& id) { return "/v1/bulks/" + percent_encode(id); }
std::string bulk_name(const Json& bulk) { return one_line(text_of(bulk, "id")); }

// Says what holds back the tasks that it has made due, if it is not what was `told` before.
void tell_held(const Json& bulk, std::string& told) {
  const Json& outcomes = part_of(bulk, "outcomes");
  std::string text;
  for (const Json& gate : part_of(outcomes, "held")) text += "\nrung: " + one_line(held_text(gate));
  if (!text.empty() && text != told)
    print_error_line(fmt::format("rung: {} not sent yet:{}", number_of(outcomes, "not_yet_sent"), text));
  told = std::move(text);
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

// Warns if no sidecar is running to carry out the bulk. `told`: it has warned since one was last running.
void warn_without_sidecar(Session& session, bool& told) {
  const auto page = read_page(*session.api, "/v1/nodes", {}, "nodes", kRowsAPage, "");
  if (!page) return;
  const Json& nodes = part_of(*page, "nodes");
  const bool alone = std::none_of(nodes.begin(), nodes.end(),
                                  [](const Json& node) { return text_of(node, "state") == "live"; });
  if (alone && !told)
    print_error_line("rung: no sidecar is running: the bulk waits for one (rung run); Ctrl-C pauses it");
  told = alone;
}

// Progress on stderr: a bar on a terminal, otherwise a line from time to time.
class Progress {
 public:
  Progress(const Json& bulk, const Clock& clock)
      : what_(text_of(bulk, "action")), clock_(clock), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (terminal_) print_error_line("");
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
      print_error_line(what_ + ": " + count);
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
  const Interrupts interrupts;
  const Clock& clock = session.clock;
  Progress progress(bulk, clock);
  std::string held, told;
  bool warned = false;
  BootMs moved{};
  while (is_running(bulk) && interrupted == 0) {
    progress.show(bulk);
    if (clock.boot() - moved >= kBetweenLines) {
      warn_without_sidecar(session, warned);
      moved = clock.boot();
    }
    sleep_interruptibly(clock, kLook);
    auto now = session.api->get(bulk_path(text_of(bulk, "id")));
    if (!now && interrupted == 0) return now;
    if (!now) break;  // try to pause it, all the same
    if (std::string news = news_of(bulk, *now); !news.empty() && news != told)
      print_error_line("rung: " + one_line(told = std::move(news)));
    if (part_of(*now, "done") != part_of(bulk, "done")) moved = clock.boot();
    bulk = *std::move(now);
    tell_held(bulk, held);
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
    print_error_line(fmt::format(
        "rung: {} left out: the database has no body of {}; `rung show` says where it is",
        left_out == 1 ? "1 task is" : fmt::format("{} tasks are", left_out), left_out == 1 ? "it" : "them"));
  for (const Json& one : part_of(counted, "expired"))
    print_error_line(one_line(fmt::format(
        "rung: {} of queue {} first failed more than {} ago (give_up.after)", number_of(one, "tasks"),
        text_of(one, "queue"), levels::format_duration(Ms{number_of(one, "after_ms")}))));
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

}  // namespace

void add_bulk_options(CLI::App& c, BulkOptions& o, BulkAction action) {
  static constexpr Field kBulk[] = {{"limit",
                                     Is::number,
                                     "N",
                                     "With a filter: at most so many tasks, those received first",
                                     {},
                                     {},
                                     1,
                                     api::kMostCounted},
                                    {"rate",
                                     Is::real,
                                     "N",
                                     "With a filter: maximum rate, in tasks per second",
                                     {},
                                     {},
                                     kLeastBulkRate,
                                     1e6}};
  static constexpr Field kCare[] = {
      {"canary",
       Is::number,
       "N",
       "With a filter: send so many first, and the others only if these succeed",
       {},
       {},
       1,
       kMostCanary},
      {"watch", Is::duration, "DURATION",
       "How long to wait for an answer to each task of the canary; then silence counts as the queue's "
       "config says (default: as long as the queue's own silence)",
       "--wait-answer,--watch"},
      {"ramp", Is::flag, "", "Begin at 1 per second and double every 10 s, up to --rate (default: 100)"},
      {"stop_on_failures", Is::text, "PERCENT",
       "Stop if more than this share of the last 10,000 sent has failed, e.g. 5%"},
      {"careful", Is::flag, "", "Where not given otherwise: --canary 10 --rate 100 --stop-on-failures 5%"}};
  o.filter = conditions(!is_finish(action));
  o.request.assign(std::begin(kBulk), std::end(kBulk));
  add_fields(c, o.filter, "Which tasks");
  c.add_flag("-y,--yes", o.yes, "With a filter: do not ask for confirmation");
  CLI::Option* dry = c.add_flag("--dry-run,--count", o.dry_run, "With a filter: only count the tasks");
  add_count_by(c, o.by)->needs(dry);
  add_fields(c, o.request);
  if (action != BulkAction::redrive) return;
  add_fields(c, kCare, "How carefully");
  o.request.insert(o.request.end(), std::begin(kCare), std::end(kCare));
}

std::string tasks_of(Session& session, const Json& bulk) {
  constexpr std::size_t kNameBytes = 80;
  const Json& filter = part_of(bulk, "filter");
  const std::string flags = filter_flags(filter), id = text_of(filter, "cause");
  if (id.empty()) return flags;
  const auto cause = session.api->get("/v1/causes/" + percent_encode(id));
  return cause ? flags + ": " + clean_utf8(cause_name(*cause), kNameBytes) : flags;
}

std::string outcome_of(const Json& bulk) {
  const std::int64_t applied = number_of(bulk, "applied"), refused = number_of(bulk, "refused");
  const std::int64_t same = number_of(bulk, "done") - applied - refused;
  std::string text =
      fmt::format("{}: {} of {} done", one_line(text_of(bulk, "action")), applied, number_of(bulk, "total"));
  if (refused > 0) text += fmt::format(", {} refused: their state no longer allowed it", refused);
  if (same > 0) text += fmt::format(", {} unchanged", same);
  return text;
}

std::string rest_of(const Json& bulk) {
  const std::string action = text_of(bulk, "action");
  const bool finish = action == "succeed" || action == "fail";
  return fmt::format("rung {}{}{} {}", finish ? "finish --" : "", action, finish ? "ed" : "",
                     filter_flags(part_of(bulk, "filter")));
}

Result<Json> control_bulk(Session& session, const std::string& id, const std::string& action,
                          const Json& body) {
  auto answer = session.api->call("POST", bulk_path(id) + "/" + action, &body);
  if (answer && answer->status == 409) return session.api->get(bulk_path(id));
  return Api::good(std::move(answer));
}

int watch_bulk(Session& session, Json bulk) {
  const std::string id = bulk_name(bulk);
  auto ended = watch(session, std::move(bulk));
  if (ended) return print_result(*ended);
  const int code = report_error(ended.error());
  print_error_line(fmt::format("rung: bulk {0} goes on on the server: `rung bulk pause {0}` pauses it", id));
  return code;
}

int make_bulk(const CLI::App& c, const BulkOptions& options, BulkAction action, Json request) {
  const bool can_ask = isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
  if (!options.dry_run && !options.yes && !can_ask)
    throw Failed(kUserError,
                 "changing many tasks needs confirmation, and there is no terminal: use --yes (--dry-run "
                 "only counts)");
  const Parameters known = read_params(c, options.filter, EpochMs{});
  const auto states = std::ranges::find(known, "state", &Parameters::value_type::first);
  if (const auto why = refused_filter(states == known.end() ? "" : states->second, action); !why.empty())
    throw Failed(kUserError, why);
  Session session(value_of(c, "--queue"));
  NewBulk asked;
  asked.action = action;
  api::FieldErrors wrong;
  asked.filter = api::read_filter(read_params(c, options.filter, session.now), "", wrong);
  if (!wrong.empty()) throw Failed(error_of({400, api::Problem(wrong).json("")}));
  request["action"] = to_word(action);
  request["filter"] = api::filter_json(of_bulk(asked));
  read_fields(c, options.request, session.now, request);
  if (request.erase("careful") > 0) {
    Json careful = {{"canary", 10}, {"rate", 100}, {"stop_on_failures", "5%"}};
    careful.update(request);
    request = std::move(careful);
  }
  Json shown = request["filter"];
  if (request.contains("limit")) shown["limit"] = dump(request["limit"]);
  if (action == BulkAction::redrive || options.dry_run || !options.yes) {
    const auto counted = dry_run(session, request, options.by);
    const bool needed = options.dry_run || !options.yes;
    if (!counted && (needed || !counted.error().is_transient())) throw Failed(counted.error());
    if (!counted)
      print_error_line("rung: what has expired is not known: " + one_line(counted.error().message));
    if (counted) tell_notes(*counted);
    if (options.dry_run && given().json) return print_json(*counted);
    if (options.dry_run) return print_matching(*counted, shown);
    if (!options.yes) confirm(session, *counted, shown, request);
  }
  Json made = need(session.api->post("/v1/bulks", request));
  if (number_of(made, "total") == 0)
    return report_none(session, request, need(control_bulk(session, text_of(made, "id"), "abort")));
  print_error_line(fmt::format("rung: {}, bulk {}", summary_of(session, made), bulk_name(made)));
  return watch_bulk(session, std::move(made));
}

std::string bar(std::int64_t done, std::int64_t total, int cells) {
  const std::int64_t full = total > 0 ? std::clamp<std::int64_t>(done * cells / total, 0, cells) : cells;
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(cells - full), '.') + "]";
}

}  // namespace rung::cli
