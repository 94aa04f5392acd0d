#include "src/cli/shared/bulk_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "levels/duration.h"
#include "src/api/tasks/bulks.h"
#include "src/api/tasks/causes.h"
#include "src/api/tasks/views.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/text.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/machine.h"

namespace rung::cli {

namespace {

constexpr Ms kBetweenLines{5000};

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

// Says what holds back the tasks that it has made due, if it is not what was `told` before.
void tell_held(Session& session, const Bulk& bulk, std::string& told) {
  const auto outcomes = session.service.bulks->outcomes(bulk);
  if (!outcomes || !*outcomes) return;
  std::string text;
  for (const QueueGate& gate : (*outcomes)->held) text += "\nrung: " + held_text(gate);
  if (!text.empty() && text != told)
    print_error_line(fmt::format("rung: {} not sent yet:{}", (*outcomes)->counts.unsent, text));
  told = std::move(text);
}

// Returns when the bulk is no longer running, or has been paused by Ctrl-C.
Result<Bulk> run_to_end(Session& session, Bulk bulk) {
  const Interrupts interrupts;
  const std::unique_ptr<BulkRun> run = session.service.bulks->run(std::move(bulk));
  Progress progress(std::string(to_word(run->bulk().action)), run->bulk().total, *session.clock);
  std::string held, told;
  BootMs look_at = session.clock->boot();
  while (run->bulk().state == BulkState::running && interrupted == 0) {
    progress.at(run->bulk().done);
    const auto wait = run->step();
    if (!wait && interrupted == 0) return tl::unexpected(wait.error());
    if (!wait) break;  // try to pause it, all the same
    if (std::string news = run->news(); !news.empty() && news != told)
      print_error_line("rung: " + (told = std::move(news)));
    if (session.clock->boot() >= look_at && run->bulk().done > 0) {
      look_at = session.clock->boot() + kBetweenLines;
      tell_held(session, run->bulk(), held);
    }
    if (run->bulk().state == BulkState::running) sleep_interruptibly(*session.clock, *wait);
  }
  progress.at(run->bulk().done);
  if (interrupted == 0) {
    tell_held(session, run->bulk(), held);
    return run->bulk();
  }
  auto paused = session.service.bulks->control({run->bulk().id, BulkState::paused});
  if (!paused) return tl::unexpected(paused.error());
  return paused->value_or(run->bulk());
}

// "redrive 7 tasks (--cause 9f2c41d07ab3: CardError: card declined)"
std::string summary_of(Session& session, const Bulk& bulk) {
  return fmt::format("{} {} {} ({})", to_word(bulk.action), bulk.total, bulk.total == 1 ? "task" : "tasks",
                     one_line(tasks_of(session, bulk)));
}

Result<std::int64_t> matching(Session& session, const NewBulk& asked) {
  const auto json = session.service.bulks->dry_run(asked, std::nullopt);
  if (!json) return tl::unexpected(json.error());
  const auto counted = api::counts_from_json(*json);
  if (!counted) return tl::unexpected(counted.error());
  return counted->total;
}

// Asks before anything is stored: a prompt can be left by Ctrl-C, or by closing the terminal. Then no more
// tasks are taken than were confirmed.
int confirm(Session& session, NewBulk& asked) {
  const auto total = matching(session, asked);
  if (!total) return report_error(total.error());
  if (*total == 0) return kSuccess;
  Bulk shown;
  shown.action = asked.action;
  shown.filter_text = asked.filter_text;
  shown.total = *total;
  const bool more = asked.limit == 0 && *total >= api::kMostCounted;
  if (!says_yes((more ? "at least: " : "") + summary_of(session, shown) + "? [y/N] "))
    return report_error(kUserError, "nothing was changed");
  if (!more) asked.limit = *total;
  return kSuccess;
}

int dry_run(Session& session, const Common& common, const NewBulk& asked, const std::optional<CountBy>& by) {
  const auto json = session.service.bulks->dry_run(asked, by);
  if (!json) return report_error(json.error());
  if (common.json) return print_json(*json);
  const auto counted = api::counts_from_json(*json);
  if (!counted) return report_error(counted.error());
  print(fmt::format("{}{} {} ({}): nothing was changed\n",
                    asked.limit == 0 && counted->total >= api::kMostCounted ? "at least " : "",
                    counted->total, counted->total == 1 ? "task matches" : "tasks match",
                    one_line(filter_flags(asked.filter_text))));
  if (by) print("\n" + counts_text(*counted, *by));
  return kSuccess;
}

int read_care(const BulkOptions& o, NewBulk& asked) {
  asked.care = o.care;
  if (!o.watch.empty()) {
    const auto watch = levels::parse_duration(o.watch);
    if (!watch) return report_error(kUserError, "--watch: " + watch.error());
    if (*watch < Ms{1000}) return report_error(kUserError, "--watch: must be at least 1s");
    asked.care.watch = *watch;
  }
  if (!o.stop_on_failures.empty()) {
    asked.care.stop_above = api::parse_percent(o.stop_on_failures);
    if (!asked.care.stop_above)
      return report_error(kUserError, "--stop-on-failures: " + std::string(api::kPercentExample));
  }
  const auto wrong = api::wrong_care(asked);
  if (!wrong) return kSuccess;
  std::string option(wrong->field);
  std::ranges::replace(option, '_', '-');
  return report_error(kUserError, "--" + option + " " + wrong->detail);
}

// What cannot be sent, and what may be too old to be wanted.
void tell_notes(Session& session, const NewBulk& asked) {
  if (asked.action != BulkAction::redrive) return;
  const auto notes = session.service.bulks->redrive_notes(asked);
  const auto expired = notes ? api::expired_from_json(*notes) : tl::unexpected(notes.error());
  if (!expired) return print_error_line("rung: what has expired is not known: " + expired.error().message);
  if (const auto left_out = notes->value("without_body", std::int64_t{0}); left_out > 0)
    print_error_line(fmt::format(
        "rung: {} left out: the database has no body of {}; `rung show` says where it is",
        left_out == 1 ? "1 task is" : fmt::format("{} tasks are", left_out), left_out == 1 ? "it" : "them"));
  for (const api::Expired& one : *expired)
    print_error_line(fmt::format("rung: {} of queue {} first failed more than {} ago (give_up.after)",
                                 one.tasks, one.queue, levels::format_duration(one.after)));
}

// Of a redrive for which nothing is left: another one has the tasks.
int report_none(Session& session, const NewBulk& asked, const Bulk& ended, bool json) {
  if (asked.action == BulkAction::redrive) {
    const auto total = matching(session, asked);
    if (!total) return report_error(total.error());
    if (*total > 0)
      return report_error(kUserError,
                          fmt::format("the {} matching {} in a redrive that is running or paused: "
                                      "rung bulk list; rung bulk resume or abort BULK",
                                      *total, *total == 1 ? "task is" : "tasks are"));
  }
  print(json ? dump(api::to_json(ended)) + "\n"
             : "no tasks match (" + one_line(filter_flags(asked.filter_text)) + ")\n");
  suggest_queue(session, asked.filter.queue);
  return kSuccess;
}

// Why the states of the filter make no sense for the action, and what would; "" if they do.
std::string refused_filter(const FilterOptions& filter, const NewBulk& asked) {
  NewBulk states = asked;
  read_states(filter, states.filter);
  std::string why = refused_states(states);
  if (why.empty()) return {};
  why += ": leave --state out";
  const auto has = [&](const char* word) {
    return std::ranges::find(filter.states, word) != filter.states.end();
  };
  if (has("parked")) why += "; `rung redrive` sends parked tasks again";
  return why;
}

int print_result(const Bulk& bulk, bool json) {
  if (json) print_json(api::to_json(bulk));
  if (bulk.state == BulkState::done) {
    // As with a single id: an error if every task was refused.
    if (bulk.done > 0 && bulk.refused == bulk.done) return report_error(kUserError, outcome_of(bulk));
    if (!json) print(outcome_of(bulk) + "\n");
    return kSuccess;
  }
  if (bulk.state == BulkState::stopped) {
    report_error(kUserError, fmt::format("bulk {} stopped at {} of {}: {}", bulk.id, bulk.done, bulk.total,
                                         bulk.stopped_because));
    return report_error(kUserError, "once that is mended: " + rest_of(bulk));
  }
  if (bulk.state == BulkState::aborted)
    return report_error(kUserError,
                        fmt::format("bulk {} was aborted at {} of {}", bulk.id, bulk.done, bulk.total));
  return report_error(
      kUserError,
      fmt::format("paused at {} of {}: `rung bulk resume {}` resumes it, `rung bulk abort {}` ends it",
                  bulk.done, bulk.total, bulk.id, bulk.id));
}

}  // namespace

void add_bulk_options(CLI::App& c, BulkOptions& o) {
  c.add_flag("-y,--yes", o.yes, "With a filter: do not ask for confirmation");
  CLI::Option* dry = c.add_flag("--dry-run,--count", o.dry_run, "With a filter: only count the tasks");
  add_count_by(c, o.by)->needs(dry);
  c.add_option("--limit", o.limit, "With a filter: at most so many tasks, those received first")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000));
  c.add_option("--rate", o.rate, "With a filter: maximum rate, in tasks per second")
      ->type_name("N")
      ->check(CLI::Range(kLeastBulkRate, 1e6));
}

void add_care_options(CLI::App& c, BulkOptions& o) {
  c.add_option("--canary", o.care.canary,
               "With a filter: send so many first, and the others only if these succeed")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kMostCanary));
  c.add_option(
       "--watch", o.watch,
       "How long to wait for an answer to each task of the canary; then silence counts as the queue's "
       "config says (default: as long as the queue's own silence)")
      ->type_name("DURATION");
  c.add_flag("--ramp", o.care.ramp, "Begin at 1 per second and double every 10 s, up to --rate");
  c.add_option("--stop-on-failures", o.stop_on_failures,
               "Stop if more than this share of the last 10,000 sent has failed, e.g. 5%")
      ->type_name("PERCENT");
}

std::string tasks_of(Session& session, const Bulk& bulk) {
  constexpr std::string_view kCause = "--cause ";
  constexpr std::size_t kNameBytes = 80;
  const std::string flags = filter_flags(bulk.filter_text);
  const auto at = flags.find(kCause);
  if (at == std::string::npos) return flags;
  const auto json = session.service.system->cause(flags.substr(at + kCause.size(), 12));
  const auto cause = json ? api::cause_from_json(*json) : tl::unexpected(json.error());
  return cause ? flags + ": " + clean_utf8(api::name_of(*cause), kNameBytes) : flags;
}

std::string outcome_of(const Bulk& bulk) {
  const std::int64_t same = bulk.done - bulk.applied - bulk.refused;
  std::string text = fmt::format("{}: {} of {} done", to_word(bulk.action), bulk.applied, bulk.total);
  if (bulk.refused > 0) text += fmt::format(", {} refused: their state no longer allowed it", bulk.refused);
  if (same > 0) text += fmt::format(", {} unchanged", same);
  return text;
}

std::string rest_of(const Bulk& bulk) {
  const bool finish = is_finish(bulk.action);
  return fmt::format("rung {}{}{} {}", finish ? "finish --" : "", to_word(bulk.action), finish ? "ed" : "",
                     filter_flags(bulk.filter_text));
}

int run_bulk(Session& session, Bulk bulk, bool json) {
  const std::int64_t id = bulk.id;
  auto ended = run_to_end(session, std::move(bulk));
  if (!ended) {
    const int code = report_error(ended.error());
    print_error_line("rung: " + session.service.bulks->left_running(id));
    return code;
  }
  return print_result(*ended, json);
}

int make_bulk(const Common& common, const FilterOptions& filter, const BulkOptions& options, NewBulk asked) {
  const bool can_ask = isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
  if (!options.dry_run && !options.yes && !can_ask) {
    return report_error(
        kUserError,
        "changing many tasks needs confirmation, and there is no terminal: use --yes (--dry-run "
        "only counts)");
  }
  if (const std::string why = refused_filter(filter, asked); !why.empty())
    return report_error(kUserError, why);
  std::optional<CountBy> by;
  if (const int code = read_count_by(options.by, by); code != kSuccess) return code;
  Session session;
  if (const int code = open_service(common, session, filter.filter.queue); code != kSuccess) return code;
  if (const std::string why = session.service.bulks->refused_target(asked.elsewhere); !why.empty())
    return report_error(kUserError, why);
  if (const int code = read_filter(filter, session.now, asked.filter); code != kSuccess) return code;
  asked.filter = of_bulk(asked);
  asked.limit = options.limit;
  asked.filter_text = api::filter_text(asked);
  asked.rate = options.rate;
  if (const int code = read_care(options, asked); code != kSuccess) return code;
  tell_notes(session, asked);
  if (options.dry_run) return dry_run(session, common, asked, by);
  if (const int code = options.yes ? kSuccess : confirm(session, asked); code != kSuccess) return code;
  auto made = session.service.bulks->create(asked);
  if (!made) return report_error(made.error());
  if (made->total == 0) {
    auto ended = session.service.bulks->control({made->id, BulkState::aborted});
    if (!ended) return report_error(ended.error());
    return report_none(session, asked, ended->value_or(*made), common.json);
  }
  print_error_line(fmt::format("rung: {}, bulk {}", summary_of(session, *made), made->id));
  return run_bulk(session, *std::move(made), common.json);
}

namespace {

constexpr int kCells = 30;
constexpr Ms kRedraw{100};

void put(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string bar(std::int64_t done, std::int64_t total, int cells) {
  const std::int64_t full = total > 0 ? std::clamp<std::int64_t>(done * cells / total, 0, cells) : cells;
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(cells - full), '.') + "]";
}

Progress::Progress(std::string what, std::int64_t total, const Clock& clock)
    : what_(std::move(what)), total_(total), clock_(clock), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { end(); }

std::string Progress::line(std::int64_t done) const {
  const Ms took = clock_.boot() - began_;
  std::string text = fmt::format("{} of {}", done, total_);
  if (total_ > 0) text += fmt::format(", {}%", done * 100 / total_);
  const std::int64_t moved = done - first_;
  if (moved <= 0 || took.count() < 500) return text;
  text += fmt::format(", {:.0f}/s", static_cast<double>(moved) * 1000.0 / static_cast<double>(took.count()));
  const auto left = Ms{(total_ - done) * took.count() / moved};
  return left.count() > 0 ? text + ", " + humanise(left) + " to go" : text;
}

void Progress::at(std::int64_t done) {
  const bool begins = first_ < 0;
  if (begins) first_ = done;
  last_ = done;
  const BootMs now = clock_.boot();
  if (!begins && now - shown_ < (terminal_ ? kRedraw : kBetweenLines)) return;
  shown_ = now;
  if (!terminal_) {
    if (!begins) put(what_ + ": " + line(done) + "\n");
    return;
  }
  put("\r" + what_ + " " + bar(done, total_, kCells) + " " + line(done) + "\x1b[K");
  open_ = true;
}

void Progress::end() {
  if (!open_) return;
  put("\r" + what_ + " " + bar(last_, total_, kCells) + " " + line(last_) + "\x1b[K\n");
  open_ = false;
}

}  // namespace rung::cli
