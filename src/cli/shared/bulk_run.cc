#include "src/cli/shared/bulk_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "levels/duration.h"
#include "src/api/bulks.h"
#include "src/api/views.h"
#include "src/bridge/changes/bulk.h"
#include "src/bridge/changes/careful_redrive.h"
#include "src/cli/shared/count.h"
#include "src/cli/shared/progress.h"
#include "src/cli/shared/retry.h"
#include "src/cli/shared/text.h"
#include "src/core/machine/machine.h"

namespace rung::cli {
namespace {

constexpr Ms kRunnerTtl{10'000};  // after this a sidecar can take over
constexpr Ms kPollInterval{300};  // for a bulk that is not due, or that another process runs

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

std::string runner_name() {
  std::array<char, 200> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"?"};
  return fmt::format("{}:{} (cli)", host.data(), getpid());
}

void print_error_line(const std::string& text) {
  const std::string line = text + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

// One bulk, run by this process.
class Run {
 public:
  Run(Session& session, Bulk bulk)
      : session_(session), clock_(*session.clock), bulk_(std::move(bulk)), runner_(runner_name()) {}

  // Returns when the bulk is no longer running, or on Ctrl-C.
  Result<Bulk> run() {
    const Interrupts interrupts;
    Progress progress(std::string(to_word(bulk_.action)), bulk_.total, clock_);
    while (bulk_.state == BulkState::running && interrupted == 0) {
      progress.at(bulk_.done);
      auto moved = run_one_step();
      if (!moved) return tl::unexpected(moved.error());
    }
    progress.at(bulk_.done);
    if (interrupted == 0) return bulk_;
    auto paused = session_.store->set_bulk(bulk_.id, BulkState::paused, std::nullopt);
    if (!paused) return tl::unexpected(paused.error());
    return paused->value_or(bulk_);
  }

 private:
  Result<void> run_one_step() {
    auto taken = retry_transient([&] { return session_.store->take_bulk(runner_, kRunnerTtl, bulk_.id); });
    if (!taken) return tl::unexpected(taken.error());
    if (!*taken) {
      sleep_interruptibly(clock_, std::clamp(next_ - clock_.boot(), Ms{20}, kPollInterval));
      return reload();
    }
    bulk_ = **taken;
    return step();
  }

  Result<void> reload() {
    auto now = retry_transient([&] { return session_.store->bulk(bulk_.id); });
    if (!now) return tl::unexpected(now.error());
    if (!*now) return not_found("no such bulk: " + std::to_string(bulk_.id));
    bulk_ = **now;
    return {};
  }

  Result<void> step() {
    const TaskId from = bulk_.last;
    auto progress = retry_transient([&] {
      return bridge::perform_step(*session_.store, bulk_, runner_, Fence{}, session_.config.rules);
    });
    if (!progress) {
      // The bulk was paused or ended, or a sidecar has taken it: nothing was written. Or an earlier try was
      // committed but its response lost: then the bulk has advanced.
      const Error error = progress.error();
      if (auto seen = reload(); !seen) return seen;
      const bool ours = bulk_.state == BulkState::running && bulk_.runner == runner_;
      if (ours && bulk_.last == from) return tl::unexpected(error);
      return {};
    }
    tell(progress->verdict);
    if (progress->verdict.go == BulkVerdict::Go::wait) next_ = clock_.boot() + bridge::kLookAtOutcomes;
    if (progress->decisions.empty()) return reload();  // it waits or has ended, which its row says
    const auto many = static_cast<double>(progress->decisions.size());
    bulk_.done += std::ssize(progress->decisions);
    // The table decides when the next step is due; this only sets how long to wait before asking.
    const double rate = bridge::rate_of(bulk_);
    const std::chrono::duration<double> pause(rate > 0 ? many / rate : 0);
    next_ = clock_.boot() + std::chrono::ceil<Ms>(pause);
    return {};
  }

  // What a careful redrive waits for, once.
  void tell(const BulkVerdict& verdict) {
    using Go = BulkVerdict::Go;
    const std::string text = verdict.go == Go::passed ? "canary succeeded: the others follow" : verdict.why;
    if (text.empty() || verdict.go == Go::stop || std::exchange(told_, text) == text) return;
    print_error_line("rung: " + text);
  }

  Session& session_;
  const Clock& clock_;
  Bulk bulk_;
  const std::string runner_;
  BootMs next_;
  std::string told_;
};

bool confirmed(const Bulk& bulk) {
  const std::string question = fmt::format("{} {} {} ({})? [y/N] ", to_word(bulk.action), bulk.total,
                                           bulk.total == 1 ? "task" : "tasks", one_line(bulk.filter_text));
  std::fwrite(question.data(), 1, question.size(), stderr);
  std::fflush(stderr);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

int dry_run(Session& session, const Common& common, const NewBulk& asked, const std::optional<CountBy>& by) {
  if (common.json) {
    const auto json = api::dry_run(*session.store, asked, by, *session.config.rules);
    if (!json) return report_error(json.error());
    print(dump(*json) + "\n");
    return kSuccess;
  }
  const std::int64_t most = asked.limit > 0 ? asked.limit : api::kMostCounted;
  const auto counted = api::count_tasks(*session.store, of_bulk(asked), by, most);
  if (!counted) return report_error(counted.error());
  print(fmt::format("{}{} {} ({}): nothing was changed\n",
                    asked.limit == 0 && counted->total >= most ? "at least " : "", counted->total,
                    counted->total == 1 ? "task matches" : "tasks match", one_line(asked.filter_text)));
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

// What may be too old to be wanted, before it is sent.
void tell_expired(Session& session, const NewBulk& asked) {
  const auto expired = api::expired_of(*session.store, asked, *session.config.rules, session.now);
  if (!expired) return print_error_line("rung: what has expired is not known: " + expired.error().message);
  for (const api::Expired& one : *expired)
    print_error_line(fmt::format("rung: {} of queue {} first failed more than {} ago (give_up.after)",
                                 one.tasks, one.queue, levels::format_duration(one.after)));
}

// Of a redrive for which nothing is left: another one has the tasks.
int report_none(Session& session, const NewBulk& asked, const Bulk& ended, bool json) {
  if (asked.action == BulkAction::redrive) {
    const auto matching = session.store->count(asked.filter, api::kMostCounted);
    if (!matching) return report_error(matching.error());
    if (*matching > 0)
      return report_error(kUserError,
                          fmt::format("the {} matching {} in a redrive that is running or paused: "
                                      "rung bulk list; rung bulk resume or abort BULK",
                                      *matching, *matching == 1 ? "task is" : "tasks are"));
  }
  print(json ? dump(api::to_json(ended)) + "\n" : "no tasks match (" + one_line(asked.filter_text) + ")\n");
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
  if (json) print(dump(api::to_json(bulk)) + "\n");
  if (bulk.state == BulkState::done) {
    // As with a single id: an error if every task was refused.
    if (bulk.done > 0 && bulk.refused == bulk.done) return report_error(kUserError, outcome_of(bulk));
    if (!json) print(outcome_of(bulk) + "\n");
    return kSuccess;
  }
  if (bulk.state == BulkState::aborted && !bulk.stopped_because.empty())
    return report_error(kUserError, fmt::format("bulk {} stopped at {} of {}: {}", bulk.id, bulk.done,
                                                bulk.total, bulk.stopped_because));
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

std::string outcome_of(const Bulk& bulk) {
  const std::int64_t same = bulk.done - bulk.applied - bulk.refused;
  std::string text = fmt::format("{}: {} of {} done", to_word(bulk.action), bulk.applied, bulk.total);
  if (bulk.refused > 0) text += fmt::format(", {} refused: their state no longer allowed it", bulk.refused);
  if (same > 0) text += fmt::format(", {} unchanged", same);
  return text;
}

int run_bulk(Session& session, Bulk bulk, bool json) {
  const std::int64_t id = bulk.id;
  auto ended = Run(session, std::move(bulk)).run();
  if (!ended) {
    const int code = report_error(ended.error());
    print_error_line(fmt::format(
        "rung: bulk {} was interrupted: a sidecar will resume it, or run `rung bulk resume {}`", id, id));
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
  if (const int code = open_session(common, session); code != kSuccess) return code;
  if (const std::string why = refused_target(asked.elsewhere, session.config.rules->targets()); !why.empty())
    return report_error(kUserError, why);
  if (const int code = read_filter(filter, session.now, asked.filter); code != kSuccess) return code;
  asked.filter = of_bulk(asked);
  asked.filter_text = to_flags(asked.filter);
  if (options.limit > 0) asked.filter_text += fmt::format(" --limit {}", options.limit);
  asked.limit = options.limit;
  asked.rate = options.rate;
  asked.who = cli_user();
  if (const int code = read_care(options, asked); code != kSuccess) return code;
  tell_expired(session, asked);
  if (options.dry_run) return dry_run(session, common, asked, by);
  asked.paused = !options.yes;  // no sidecar starts it before the answer
  auto made = session.store->create_bulk(asked);
  if (!made) return report_error(made.error());
  if (made->total == 0) {
    auto ended = session.store->set_bulk(made->id, BulkState::aborted, std::nullopt);
    if (!ended) return report_error(ended.error());
    return report_none(session, asked, ended->value_or(*made), common.json);
  }
  if (options.yes) {
    print_error_line(fmt::format("rung: {} {} {} ({}), bulk {}", to_word(made->action), made->total,
                                 made->total == 1 ? "task" : "tasks", one_line(made->filter_text), made->id));
  } else {
    const bool yes = confirmed(*made);
    auto set = session.store->set_bulk(made->id, yes ? BulkState::running : BulkState::aborted, std::nullopt);
    if (!set) return report_error(set.error());
    if (!yes) return report_error(kUserError, "nothing was changed");
    if (*set) *made = **set;
  }
  return run_bulk(session, *std::move(made), common.json);
}

}  // namespace rung::cli
