// rung move: moves a queue between groups of databases. The order of the steps, and what holds between them:
//
//   the file says that the queue belongs to the target group, and every live sidecar runs this file:
//   no other group accepts new tasks of it
//   paused in the groups that have tasks of it, and in the target   nothing of it is published
//   deliveries whose silence means failure are answered             no second publish by the old group
//   attached to the target                                          its failures come to the target
//   scheduled tasks copied and cancelled (move_tasks.h)
//   resumed
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "levels/duration.h"
#include "src/api/queues/pauses.h"
#include "src/cli/attach/attach_run.h"
#include "src/cli/attach/move_groups.h"
#include "src/cli/attach/move_pauses.h"
#include "src/cli/attach/move_tasks.h"
#include "src/cli/attach/under_way.h"
#include "src/cli/service/retry.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

constexpr std::int64_t kCountAll = std::numeric_limits<std::int64_t>::max();
constexpr int kFailingAtOnce = 500;
// Passes over a group: failures that arrived before the queue was attached elsewhere still come in.
constexpr int kMostPasses = 20;

struct MoveOptions {
  Common common;
  std::string queue, to;
  std::string wait = "30m";
};

Result<std::int64_t> count_in(const MoveGroup& group, const std::string& queue, std::vector<State> states) {
  Filter filter;
  filter.queue = queue;
  filter.states = std::move(states);
  return retry_transient([&] { return group.session.store->count(filter, kCountAll); });
}

// Tasks of this state for which silence means failure. Unanswered deliveries among them: the old group would
// publish them again, while their failure goes to the new one. Scheduled ones would become such deliveries.
Result<std::int64_t> count_failing(const MoveGroup& group, const std::string& queue, State state) {
  Filter filter;
  filter.queue = queue;
  filter.state = state;
  filter.order = Filter::Order::oldest;
  filter.limit = kFailingAtOnce;
  std::int64_t found = 0;
  for (;;) {
    const auto rows = retry_transient([&] { return group.session.store->list(filter); });
    if (!rows) return tl::unexpected(rows.error());
    if (rows->empty()) return found;
    filter.after = rows->back().task.id;
    found += std::ranges::count_if(*rows, [&](const TaskRow& row) {
      return silence_of(row.task, *group.session.config.rules).means == Silence::Means::failure;
    });
  }
}

// What was moved out of a group, and what stays there.
struct Left {
  std::string group;
  std::int64_t moved = 0, scheduled = 0, awaiting = 0, parked = 0;
  std::string why_scheduled;  // why the last of them was not moved
  bool failing = false;       // silence after one of the scheduled ones means failure
};

class Move {
 public:
  Move(const MoveOptions& options, const Config& config, rabbit::QueueAdmin& admin, BootMs until)
      : options_(options),
        admin_(admin),
        broker_(config.broker),
        until_(until),
        pauses_(options.queue, options.to) {
    broker_.prefix = config.groups.find(options.to)->prefix;
  }

  int run(const std::string& file, const QueueGroups& named) {
    if (const auto refused = why_not_attachable(admin_, broker_, options_.queue))
      return report_error(refused->code, refused->detail + "; nothing was changed");
    int code = open_groups(file, named, options_.to, groups_);
    if (code == kSuccess) code = check_sidecars(groups_);
    if (code == kSuccess) code = find_sources();
    if (code == kSuccess) code = pauses_.look(involved());
    if (code == kSuccess) code = check_origins();
    if (code != kSuccess) return code;
    code = pauses_.set();
    if (code == kSuccess) code = move();
    const std::string why = why_paused(code);
    if (code == kSuccess) code = say_left();
    if (why.empty()) {
      const int lifted = pauses_.lift(!attached_);
      if (code == kSuccess) code = lifted;
    } else {
      code =
          report_error(static_cast<Exit>(code),
                       fmt::format("the pauses of queue {} in {} stay as they are: {}: run rung move again, "
                                   "do not resume it by hand",
                                   options_.queue, names_of(involved()), why));
    }
    if (attached_) report();
    return code;
  }

 private:
  // The groups that have tasks under way, or may have been left by a run that was killed; and the target.
  int find_sources() {
    for (const auto& group : groups_) {
      if (group->name == options_.to) target_ = group.get();
    }
    const auto at_target = pauses_.is_left_over(*target_);
    if (!at_target) return report_error(at_target.error());
    for (const auto& group : groups_) {
      if (group.get() == target_ || group->session.store == nullptr) continue;
      const auto tasks =
          count_in(*group, options_.queue, {State::scheduled, State::publishing, State::awaiting});
      if (!tasks) return report_error(tasks.error());
      const auto paused = pauses_.is_left_over(*group);
      if (!paused) return report_error(paused.error());
      // Also one that has no tasks any more: copies of its tasks may be in the target, and a person's pause
      // there comes along.
      if (*tasks > 0 || *paused || *at_target) sources_.push_back(group.get());
    }
    movers_.reserve(sources_.size());
    for (MoveGroup* source : sources_)
      movers_.emplace_back(*source, *target_, options_.queue, [this] { return pauses_.hold(); });
    return kSuccess;
  }
  int check_origins() {
    for (TaskMover& mover : movers_) {
      if (const auto good = mover.check_origins(); !good) return report_error(good.error());
    }
    return kSuccess;
  }
  std::vector<MoveGroup*> involved() const {
    std::vector<MoveGroup*> all = sources_;
    all.push_back(target_);
    return all;
  }
  static std::string names_of(const std::vector<MoveGroup*>& groups) {
    std::string names;
    for (const MoveGroup* group : groups) names += (names.empty() ? "" : " and ") + group->name;
    return names;
  }
  // Why the queue must stay paused; "" = it may be resumed. `code`: of set() and move().
  std::string why_paused(int code) const {
    if (std::ranges::any_of(movers_, &TaskMover::in_doubt)) return "tasks may be in two groups";
    if (code != kSuccess && attached_) return "it is attached to " + options_.to + " already";
    if (code != kSuccess && may_be_attached_) return "it may be attached to " + options_.to + " already";
    if (code != kSuccess && pauses_.has_left_over()) return "an earlier run was not finished";
    if (std::ranges::any_of(left_, &Left::failing)) return "silence would send again what was not moved";
    return {};
  }

  int move() {
    if (const auto since = pauses_.target_since()) {
      for (TaskMover& mover : movers_) {
        if (const auto done = mover.complete(*since); !done) return report_error(done.error());
      }
    }
    if (const int code = wait(); code != kSuccess) return code;
    if (const auto good = pauses_.hold(); !good) return report_error(good.error());
    Outcome attached = attach_queues(admin_, broker_, {options_.queue}, true).front();
    may_be_attached_ = attached.may_be_set;
    if (attached.code != kSuccess) return report_error(attached.code, attached.detail);
    attached_ = std::move(attached);
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      if (const int code = move_from(i); code != kSuccess) return code;
    }
    return kSuccess;
  }

  int wait() {
    if (sources_.empty()) return kSuccess;
    std::this_thread::sleep_for(kPauseTakes);
    const auto open = [&]() -> Result<std::int64_t> {
      std::int64_t all = 0;
      for (const MoveGroup* source : sources_) {
        // In this order: a task that is confirmed in between is counted at least once.
        const auto publishing = count_in(*source, options_.queue, {State::publishing});
        if (!publishing) return publishing;
        const auto unanswered = count_failing(*source, options_.queue, State::awaiting);
        if (!unanswered) return unanswered;
        all += *publishing + *unanswered;
      }
      return all;
    };
    return wait_for_none(
        *target_->session.clock, until_, open,
        {"being published, or have no answer yet, and silence would send them again",
         ": try again, or with a longer --wait", "the queue stays paused until rung move runs again"});
  }

  int move_from(std::size_t source) {
    TaskMover& mover = movers_[source];
    Left left;
    left.group = sources_[source]->name;
    bool again = true;
    for (int passes = 0; again && passes < kMostPasses; ++passes) {
      if (passes > 0) std::this_thread::sleep_for(kPauseTakes);
      const auto moved = mover.pass();
      if (!moved) return report_error(moved.error());
      again = passes == 0 || *moved > 0;
    }
    left.moved = mover.moved();
    left.why_scheduled = mover.why_left();
    const std::pair<State, std::int64_t*> counted[] = {{State::scheduled, &left.scheduled},
                                                       {State::awaiting, &left.awaiting},
                                                       {State::parked, &left.parked}};
    for (const auto& [state, into] : counted) {
      const auto tasks = count_in(*sources_[source], options_.queue, {state});
      if (!tasks) return report_error(tasks.error());
      *into = *tasks;
    }
    const auto failing = count_failing(*sources_[source], options_.queue, State::scheduled);
    if (!failing) return report_error(failing.error());
    left.failing = *failing > 0;
    left_.push_back(std::move(left));
    return kSuccess;
  }

  // What could not be moved, before the queue is resumed.
  int say_left() const {
    int code = kSuccess;
    for (const Left& left : left_) {
      if (left.scheduled == 0) continue;
      code = report_error(
          kUserError, fmt::format("group {}: {} scheduled tasks were not moved{}{}; {}", left.group,
                                  left.scheduled, left.why_scheduled.empty() ? "" : ": ", left.why_scheduled,
                                  left.failing ? "cancel or repair them"
                                               : "run rung move again, or they go out from " + left.group));
    }
    return code;
  }
  void report() const {
    if (options_.common.json) {
      print_json(json());
      return;
    }
    print(one_line(attached_->detail) + "\n");
    for (const std::string& note : attached_->notes) print("  note: " + one_line(note) + "\n");
    for (const Left& left : left_) {
      print(fmt::format("group {}: {} tasks moved to {}", left.group, left.moved, options_.to));
      if (left.awaiting > 0)
        print(fmt::format("; {} await an answer, which belongs to {}", left.awaiting, left.group));
      if (left.parked > 0) print(fmt::format("; {} are parked, and stay in {}", left.parked, left.group));
      print("\n");
    }
    if (sources_.empty()) print("no other group has tasks under way\n");
    if (!pauses_.kept().empty())
      print("queue " + one_line(options_.queue) +
            " stays paused, as a person has paused it: " + pauses_.kept() + "\n");
  }
  Json json() const {
    Json groups = Json::array();
    for (const Left& left : left_) {
      groups.push_back({{"group", left.group},
                        {"moved", left.moved},
                        {"scheduled", left.scheduled},
                        {"awaiting", left.awaiting},
                        {"parked", left.parked}});
    }
    return {{"queue", options_.queue},
            {"to", options_.to},
            {"attach",
             {{"result", attached_->result}, {"detail", attached_->detail}, {"notes", attached_->notes}}},
            {"paused", !pauses_.kept().empty()},
            {"from", std::move(groups)}};
  }

  const MoveOptions& options_;
  rabbit::QueueAdmin& admin_;
  BrokerOptions broker_;
  const BootMs until_;
  MoveGroups groups_;
  MoveGroup* target_ = nullptr;
  std::vector<MoveGroup*> sources_;
  std::vector<TaskMover> movers_;  // of the sources
  MovePauses pauses_;
  std::optional<Outcome> attached_;  // none: the queue is not attached yet
  bool may_be_attached_ = false;     // attaching has failed, but perhaps only its answer was lost
  std::vector<Left> left_;
};

// The error in what the command is to do; "" = none.
std::string wrong_move(const MoveOptions& options, const Config& config) {
  const QueueGroups& groups = config.groups;
  if (groups.empty()) return "the config has no groups: there is nothing to move between (docs/scale.md)";
  if (groups.find(options.to) == nullptr)
    return "--to: unknown group '" + options.to + "': available groups: " + groups.names();
  if (std::string why = api::wrong_queue_name(options.queue); !why.empty()) return why;
  if (is_own_queue(config, options.queue))
    return options.queue + " is a queue of Rung or of the broker itself";
  const auto* group = groups.of_queue(options.queue);
  if (group != nullptr && group->name == options.to) return {};
  return fmt::format(
      "queue '{}' belongs to {} in this file: first add it to groups.{}.queues{}, and reload all sidecars",
      options.queue, group == nullptr ? "no group" : "group " + group->name, options.to,
      group == nullptr ? "" : " instead of groups." + group->name + ".queues");
}

int run(const MoveOptions& options) {
  const auto wait = levels::parse_duration(options.wait);
  if (!wait) return report_error(kUserError, "--wait: " + wait.error());
  Config config;
  if (const int code = load(options.common, config, ConfigFor::broker); code != kSuccess) return code;
  if (const std::string wrong = wrong_move(options, config); !wrong.empty())
    return report_error(kUserError, wrong);
  FoundAdmin found = find_admin(config.broker);
  if (found.config_error) return report_error(*found.config_error);
  if (found.admin == nullptr) {
    std::string why;
    for (const std::string& each : found.reasons) why += (why.empty() ? "" : "; ") + each;
    return report_error(kUnreachable, "nothing was changed: " + why);
  }
  const SystemClock clock;
  return Move(options, config, *found.admin, clock.boot() + *wait)
      .run(find_config(options.common), config.groups);
}

}  // namespace

void add_move(CLI::App& app, int* exit) {
  auto o = std::make_shared<MoveOptions>();
  CLI::App& c =
      add_command(app, "move", "Moves a queue to another group of the config, with its scheduled tasks",
                  "Example:\n"
                  "  rung move orders --to us\n"
                  "First move the queue to groups.us.queues in rung.yaml, and reload all sidecars. The "
                  "command pauses the\n"
                  "queue, attaches it to the new group, moves its scheduled tasks there, and resumes it, "
                  "unless a person\n"
                  "had paused it. If it is killed, or fails once the queue is attached, the queue stays "
                  "paused: run it\n"
                  "again. Parked and finished tasks stay in the old group.\n"
                  "It needs the databases of all groups, and attaches as rung attach does.",
                  o->common);
  c.remove_option(c.get_option("--group"));
  c.add_option("QUEUE", o->queue, "The queue")->required();
  c.add_option("--to", o->to, "The group to move it to")->type_name("GROUP")->required();
  c.add_option("--wait", o->wait,
               "Wait at most this long for deliveries that are being published, or whose success must be "
               "reported")
      ->type_name("DURATION")
      ->capture_default_str();
  c.callback([o, exit] { *exit = run(*o); });
}

}  // namespace rung::cli
