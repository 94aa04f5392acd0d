#include "src/cli/attach/detach_guard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "levels/duration.h"
#include "plugin/rabbitmq/topology/attachment.h"
#include "src/cli/service/answers.h"
#include "src/cli/service/api.h"
#include "src/cli/shared/bulk_run.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

// Sidecars read pauses twice a second; what they had claimed by then still goes out.
constexpr Ms kPauseTakes{3000};
constexpr Ms kPollUnderWay{500};
constexpr Ms kTellEvery{5000};

// One line to stderr.
void tell(const std::string& line) {
  const std::string text = "rung: " + one_line(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

// A database or a schema that does not exist has no tasks.
bool has_no_tables(const Error& error) {
  return error.kind == Error::Kind::refused && error.message.find("rung migrate") != std::string::npos;
}

struct UnderWay {
  std::int64_t scheduled = 0, publishing = 0, awaiting = 0;
  std::int64_t held = 0;  // of awaiting: only a person ends them
  std::int64_t total() const { return scheduled + publishing + awaiting; }
};
using ByQueue = std::map<std::string, UnderWay>;

// Queues without tasks are left out.
Result<ByQueue> count_under_way(MysqlStore& store, const std::vector<std::string>& queues) {
  auto stats = retry_transient([&] { return store.open_by_queue(); });
  if (!stats) return tl::unexpected(stats.error());
  auto held = retry_transient([&] { return store.held_silences(); });
  if (!held) return tl::unexpected(held.error());
  ByQueue found;
  for (const QueueStat& stat : *stats) {
    if (std::ranges::find(queues, stat.queue) == queues.end()) continue;
    if (stat.state == State::scheduled) found[stat.queue].scheduled += stat.tasks;
    if (stat.state == State::publishing) found[stat.queue].publishing += stat.tasks;
    if (stat.state == State::awaiting) found[stat.queue].awaiting += stat.tasks;
  }
  for (auto& [queue, under_way] : found) {
    if (const auto it = held->find(queue); it != held->end()) under_way.held = it->second;
  }
  std::erase_if(found, [](const auto& entry) { return entry.second.total() == 0; });
  return found;
}

std::string under_way_text(const ByQueue& counts) {
  std::string text;
  for (const auto& [queue, n] : counts) {
    text += fmt::format("{}{} has {} {} under way ({} scheduled, {} being published, {} awaiting an answer)",
                        text.empty() ? "" : "; ", queue, n.total(), n.total() == 1 ? "task" : "tasks",
                        n.scheduled, n.publishing, n.awaiting);
  }
  return text;
}

bool confirmed(const ByQueue& counts) {
  std::string text;
  for (const auto& [queue, n] : counts) text += one_line(under_way_text({{queue, n}})) + "\n";
  text +=
      "Once detached, failures of these tasks are lost. Silence is then no success: a person decides on "
      "each.\n"
      "Detach anyway? [y/N] ";
  return says_yes(text);
}

class Drain {
 public:
  Drain(Session& session, const std::vector<std::string>& queues, Ms wait)
      : session_(session), queues_(queues), until_(session.clock->boot() + wait) {}

  // Delivers what is scheduled, once.
  int send_back() {
    for (const std::string& queue : queues_) {
      const auto made = session_.api->post(
          "/v1/bulks", {{"action", "fire"}, {"filter", {{"queue", queue}, {"state", "scheduled"}}}});
      if (!made) return report_error(made.error());
      if (number_of(*made, "total") == 0) continue;
      if (const int code = run_bulk(session_, *made, false); code != kSuccess) return code;
    }
    auto now = session_.store->now();
    if (!now) return report_error(now.error());
    return wait(
        [&]() -> Result<std::int64_t> {
          std::int64_t due = 0;
          for (const std::string& queue : queues_) {
            Filter filter;
            filter.queue = queue;
            filter.state = State::scheduled;
            filter.due_before = *now + Ms{1};
            auto matching = session_.store->count(filter, 1'000'000);
            if (!matching) return matching;
            due += *matching;
          }
          return due;
        },
        "to be delivered");
  }

  int pause() {
    auto pauses = session_.store->pauses();
    if (!pauses) return report_error(pauses.error());
    for (const std::string& queue : queues_) {
      const auto before =
          std::ranges::find_if(*pauses, [&](const Pause& p) { return p.queue == queue && !p.over; });
      if (before != pauses->end() && !before->until) continue;
      auto made = session_.store->pause({queue, std::nullopt, cli_user(), "rung detach --drain"});
      if (!made) return report_error(made.error());
      paused_.emplace_back(queue, before == pauses->end() ? std::nullopt : std::optional(*before));
      tell("queue " + queue + " is paused: nothing is delivered to it any more");
    }
    std::this_thread::sleep_for(kPauseTakes);
    return kSuccess;
  }

  // What it did not finish leaves the queues as they were.
  int give_up(int code) {
    const auto now = session_.store->now();
    for (const auto& [queue, before] : paused_) {
      const NewPause asked{queue, before ? before->until : now.value_or(EpochMs{}),
                           before ? before->who : cli_user(),
                           before ? before->reason : "rung detach --drain gave up"};
      const auto done = now ? session_.store->pause(asked) : tl::unexpected(now.error());
      tell(done ? "queue " + queue + " is as it was before"
                : "queue " + queue + " is still paused: rung resume " + queue);
    }
    return code;
  }

  int wait_for_answers() {
    StuckDrain stuck;
    const int code = wait(
        [&]() -> Result<std::int64_t> {
          auto counts = count_under_way(*session_.store, queues_);
          if (!counts) return tl::unexpected(counts.error());
          std::int64_t publishing = 0, awaiting = 0;
          for (const auto& [queue, n] : *counts) {
            publishing += n.publishing;
            awaiting += n.awaiting - n.held;
          }
          if (stuck.is_stuck(publishing, awaiting, session_.clock->boot())) return tl::unexpected(lost());
          return publishing + awaiting;
        },
        "to be answered");
    if (code != kSuccess) return code;
    auto counts = count_under_way(*session_.store, queues_);
    if (!counts) return report_error(counts.error());
    for (const auto& [queue, n] : *counts) {
      if (n.held > 0)
        return report_error(
            kUserError,
            fmt::format("{} has {} deliveries whose silence is held open: decide on them first (rung "
                        "list --queue {} --state awaiting, then finish or redrive), or use --force",
                        queue, n.held, queue));
      if (n.scheduled > 0)
        tell(
            fmt::format("{} scheduled tasks of {} wait behind the pause until it is resumed, or they are "
                        "cancelled or redriven elsewhere",
                        n.scheduled, queue));
    }
    return kSuccess;
  }

 private:
  // Until `open` returns 0.
  int wait(const std::function<Result<std::int64_t>()>& open, const char* what) {
    BootMs told{0};
    for (;;) {
      const auto left = open();
      if (!left) return report_error(left.error());
      if (*left == 0) return kSuccess;
      const std::string still = fmt::format("{} deliveries are still {}", *left, what);
      const BootMs now = session_.clock->boot();
      if (now >= until_) return report_error(kUserError, still + ": the queue is attached as before");
      if (now - told >= kTellEvery) {
        tell(still + " (Ctrl-C ends the wait: the queue stays attached, and paused)");
        told = now;
      }
      std::this_thread::sleep_for(kPollUnderWay);
    }
  }

  // The deliveries that are left in the end.
  Error lost() {
    std::string ids;
    for (const std::string& queue : queues_) {
      Filter filter;
      filter.queue = queue;
      filter.state = State::publishing;
      const auto tasks = session_.store->list(filter);
      for (std::size_t i = 0; tasks && i < tasks->size(); ++i) ids += " " + (*tasks)[i].task.id.str();
    }
    return {
        Error::Kind::permanent,
        "what is left are deliveries whose publish was lost, and its repeat waits behind the pause:" + ids +
            ". The queue is attached as before: they go out now; then run this again, or use --force"};
  }

  Session& session_;
  const std::vector<std::string>& queues_;
  const BootMs until_;
  // Those that this has paused; their pause before, if it had an end.
  std::vector<std::pair<std::string, std::optional<Pause>>> paused_;
};

}  // namespace

bool StuckDrain::is_stuck(std::int64_t publishing, std::int64_t others, BootMs now) {
  if (publishing == 0 || others > 0 || publishing != publishing_) since_ = now;
  publishing_ = publishing;
  return publishing > 0 && now - since_ >= kAfter;
}

int before_detach(const GroupChoice& group, const DetachChoice& choice,
                  const std::vector<std::string>& queues, Session& session) {
  const auto wait = levels::parse_duration(choice.wait);
  if (!wait) return report_error(kUserError, "--wait: " + wait.error());
  LoadedConfig loaded = load_config(find_config(), ConfigFor::database, group);
  session.config = std::move(loaded.config);
  const Result<void> connected =
      loaded.ok() ? connect_store(session) : Result<void>(permanent(loaded.problems.front().str()));
  if (!connected) {
    session.store.reset();
    if (choice.force || has_no_tables(connected.error())) return kSuccess;
    return report_error(exit_of(connected.error()),
                        "tasks under way cannot be counted: " + connected.error().message +
                            "; --force detaches without counting them");
  }
  auto counts = count_under_way(*session.store, queues);
  if (!counts) return report_error(counts.error());
  if (counts->empty()) return kSuccess;
  if (choice.force) {
    tell(under_way_text(*counts) + ": detached all the same (--force)");
    return kSuccess;
  }
  if (choice.drain) {
    Drain drain(session, queues, *wait);
    int code = choice.send_back ? drain.send_back() : kSuccess;
    if (code == kSuccess) code = drain.pause();
    if (code == kSuccess) code = drain.wait_for_answers();
    return code == kSuccess ? code : drain.give_up(code);
  }
  const bool can_ask = isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0;
  if (!can_ask)
    return report_error(kUserError,
                        under_way_text(*counts) +
                            ": once detached, their failures would be lost; --drain waits for them, "
                            "--force detaches anyway");
  return confirmed(*counts) ? kSuccess : report_error(kUserError, "nothing was detached");
}

void after_detach(rabbit::QueueAdmin& admin, const std::string& prefix,
                  const std::vector<std::string>& queues, Session& session) {
  if (session.store == nullptr || queues.empty()) return;
  const rabbit::AttachedLook look = rabbit::look_at_attached(admin, prefix, queues);
  auto now = session.store->now();
  if (!now) return;
  std::vector<AttachmentSighting> seen;
  for (std::size_t i = 0; i < queues.size(); ++i) {
    if (look.answers[i].attached != rabbit::Attached::no) continue;  // another policy attaches it
    seen.push_back({queues[i], AttachmentState::detached, "rung detach by " + cli_user(), *now, false, true});
  }
  if (auto done = session.store->see_attachments(seen); !done)
    tell("the sidecars could not be told: " + done.error().message + "; they look by themselves");
}

}  // namespace rung::cli
