// rung pause, resume, queues: when the tasks of a queue may go out.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/api/queues/gates.h"
#include "src/api/queues/pauses.h"
#include "src/api/tasks/pages.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/cli/shared/when.h"
#include "src/core/base/utf8.h"

namespace rung::cli {
namespace {

struct PauseOptions {
  Common common;
  std::string queue, lasts, until, reason;
  bool probe = false;  // of resume
};

// Reads --for and --until.
int read_end(const PauseOptions& options, EpochMs now, api::PauseRequest& request) {
  if (!options.lasts.empty()) {
    const auto lasts = levels::parse_duration(options.lasts);
    if (!lasts || *lasts <= Ms{0} || *lasts > levels::kLongest)
      return report_error(kUserError, "--for: '" + options.lasts +
                                          "' is not a duration from 1ms to 3650d, e.g. 90s, 1h30m, 2d");
    request.lasts = *lasts;
  }
  if (!options.until.empty()) {
    const auto until = parse_until(options.until, now);
    if (!until) return report_error(kUserError, "--until: " + until.error());
    request.until = *until;
  }
  return kSuccess;
}

int pause(const PauseOptions& options) {
  Session session;
  if (const int code = open_service(options.common, session, options.queue); code != kSuccess) return code;
  api::PauseRequest request;
  request.queue = options.queue;
  request.reason = clean_utf8(options.reason, kErrorBytes);
  if (const int code = read_end(options, session.now, request); code != kSuccess) return code;
  const auto made = session.service.system->pause(request);
  if (!made) return report_error(made.error());
  if (options.common.json) return print_json(api::to_json(*made));
  print(one_line(fmt::format("{} is paused {}", made->queue, api::pause_text(*made))) + "\n");
  suggest_queue(session, made->queue);
  return kSuccess;
}

// "orders flows again, after 2h: ended the retry-after (task 4711 asked for 10m)"
std::string resumed_text(const std::string& queue, const api::ResumedQueue& resumed) {
  const auto& [pause, retry_after] = resumed.ended;
  if (!resumed.ended.any()) {
    if (resumed.probes) return "the wait of a breaker has ended: " + resumed.held_still;
    if (resumed.held_still.empty()) return "nothing to do: " + queue + " is not paused";
    const std::string probe =
        resumed.state == "breaker_open" ? ", or now: rung resume " + queue + " --probe" : "";
    return "nothing to do: " + queue + " is not paused by a person: " + resumed.held_still +
           ". This ends by itself" + probe;
  }
  const Pause& ended = pause ? *pause : *retry_after;
  std::string text = fmt::format(
      "{}, after {}", resumed.held_still.empty() ? queue + " flows again" : queue + " is not paused any more",
      humanise(*ended.until - ended.since));
  if (retry_after)
    text += fmt::format(": ended {}the retry-after ({})", pause ? "the pause and " : "", retry_after->reason);
  return resumed.held_still.empty() ? text : text + "; but " + resumed.held_still;
}

int resume(const PauseOptions& options) {
  Session session;
  if (const int code = open_service(options.common, session, options.queue); code != kSuccess) return code;
  const auto ended = session.service.system->resume(
      {options.queue, "", clean_utf8(options.reason, kErrorBytes), options.probe});
  if (!ended) return report_error(ended.error());
  if (options.common.json) return print_json(api::to_json(*ended));
  print(one_line(resumed_text(options.queue, *ended)) + "\n");
  return kSuccess;
}

struct QueuesOptions {
  Common common;
  bool watch = false;
};

// "-" if the end is not known in advance: a rate limit has none, and a half-open breaker closes when its
// probes succeed.
std::string end_cell(const QueueGate& gate, EpochMs now) {
  if (gate.state == "rate_limited" || gate.state == "breaker_half_open") return "-";
  if (gate.until) return relative(*gate.until, now);
  return gate.state == "paused" ? "until resumed" : "-";
}

std::string queues_table(const std::vector<QueueGate>& gates, EpochMs now) {
  using enum Table::Align;
  if (gates.empty()) return "no queue has open tasks, is held back or attached\n";
  Table table({{"QUEUE", left, 12},
               {"STATE", left},
               {"SINCE", left, 0, 3},
               {"UNTIL", left},
               {"WAITING", right},
               {"NEXT", left, 0, 2},
               {"PARKED", right},
               {"ATTACHED", left},
               {"BY", left, 8, 1},
               {"REASON", left}});
  for (const QueueGate& gate : gates) {
    const bool flows = gate.state == "flowing";
    const std::string unread = gate.unread == 0 ? "" : fmt::format("no consumer: {} wait in it", gate.unread);
    table.row({gate.queue,
               {api::state_text(gate), flows && unread.empty() ? Colour::green : Colour::yellow},
               gate.since ? relative(*gate.since, now) : "-",
               end_cell(gate, now),
               std::to_string(gate.waiting),
               gate.next_at ? relative(*gate.next_at, now) : "-",
               std::to_string(gate.parked),
               !gate.attached   ? "-"
               : *gate.attached ? "yes"
                                : "no",
               gate.by.empty() ? "-" : gate.by,
               !gate.reason.empty() ? gate.reason
               : unread.empty()     ? "-"
                                    : unread});
  }
  return table.str(Terminal::of_stdout());
}

int queues(const QueuesOptions& options) {
  Session session;
  if (const int code = open_service(options.common, session, "", ConfigFor::reading); code != kSuccess)
    return code;
  const auto draw = [&]() -> int {
    auto gates = session.service.system->gates();
    if (!gates) return report_error(gates.error());
    if (options.common.json) return print_json(api::queues_page(*std::move(gates), api::whole_list()));
    print(queues_table(*gates, session.now));
    return kSuccess;
  };
  return options.watch ? watch(session, draw) : draw();
}

void add_queues(CLI::App& app, int* exit) {
  auto o = std::make_shared<QueuesOptions>();
  CLI::App& c = add_service_command(
      app, "queues", "Lists the queues that have open tasks, are held back or attached",
      "Examples:\n"
      "  rung queues\n"
      "  rung queues --json | jq '.queues[] | select(.state == \"paused\")'\n"
      "STATE says what holds the queue back: a pause, its window, its breaker, or its rate.\n"
      "ATTACHED: whether the sidecars see that its dead letters come here; - is a queue that never was.\n"
      "REASON also says if deliveries wait in a queue that has no consumer.\n"
      "WAITING counts scheduled tasks, due or not. NEXT is the earliest due time.",
      o->common);
  add_utc(c);
  add_watch(c, o->watch)->excludes("--json");
  c.callback([o, exit] { *exit = queues(*o); });
}

}  // namespace

void add_pause(CLI::App& app, int* exit) {
  auto p = std::make_shared<PauseOptions>();
  CLI::App& c = add_service_command(
      app, "pause", "Pauses a queue: its tasks wait, and cost no attempt",
      "Examples:\n"
      "  rung pause orders --reason \"the shop is down\"     until it is resumed\n"
      "  rung pause orders --for 2h\n"
      "  rung pause orders --until 08:00                   the next 08:00 of this machine's clock\n"
      "  rung pause orders --until 2026-11-23T08:00:00Z\n"
      "In force on every sidecar within a second. Pausing a paused queue changes its end and its reason.",
      p->common);
  c.add_option("QUEUE", p->queue, "The queue; it need not exist yet")->required();
  CLI::Option* lasts = c.add_option("--for", p->lasts, "How long (2h, 1d)")->type_name("DURATION");
  c.add_option("--until", p->until, "Until when (08:00, or 2026-11-23T08:00:00Z)")
      ->type_name("TIME")
      ->excludes(lasts);
  c.add_option("--reason", p->reason, "Why, for the other users")->type_name("TEXT");
  c.callback([p, exit] { *exit = pause(*p); });

  auto r = std::make_shared<PauseOptions>();
  CLI::App& again =
      add_service_command(app, "resume", "Ends the pause of a queue, or a retry-after that holds it back",
                          "Examples:\n"
                          "  rung resume orders\n"
                          "  rung resume orders --probe           the breaker tries the next task now\n"
                          "What is overdue goes out oldest first, at the queue's catch-up rate.",
                          r->common);
  again.add_option("QUEUE", r->queue, "The queue")->required();
  again.add_flag("--probe", r->probe,
                 "Also end the wait of an open breaker: the task that is due first goes out as its probe");
  again.add_option("--reason", r->reason, "Why; recorded in the audit and in retry_events")
      ->type_name("TEXT");
  again.callback([r, exit] { *exit = resume(*r); });

  add_queues(app, exit);
}

}  // namespace rung::cli
