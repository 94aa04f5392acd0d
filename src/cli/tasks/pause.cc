// rung pause, resume, queues: when the tasks of a queue may go out.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/api/queues/gates.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/options.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/hex.h"
#include "src/core/base/time.h"

namespace rung::cli {
namespace {

constexpr Field kPauseReason{"reason", Is::reason, "TEXT", "Why, for the other users; recorded in the audit"};
constexpr Field kPause[] = {{"for", Is::duration, "DURATION", "How long (2h, 1d)"},
                            {"until", Is::until, "TIME", "Until when (08:00, or 2026-11-23T08:00:00Z)"},
                            kPauseReason};
constexpr Field kResume[] = {
    {"probe", Is::flag, "",
     "Also end the wait of an open breaker: the task that is due first goes out as its probe"},
    kPauseReason};

// A path cannot name every queue.
Json change(Session& session, const std::string& queue, const char* action, const CLI::App& c,
            std::span<const Field> fields) {
  if (const std::string why = api::wrong_queue_name(queue); !why.empty()) throw Failed(kUserError, why);
  Json request = Json::object();
  read_fields(c, fields, session.now, request);
  return need(session.api->post("/v1/queues/" + percent_encode(queue) + action, request));
}

int pause(const CLI::App& c) {
  const std::string queue = value_of(c, "QUEUE");
  Session session(queue);
  print_answer(change(session, queue, "/pause", c, kPause), [&](const Json& made) {
    const auto until = time_of(made, "until");
    const std::string reason = text_of(made, "reason");
    return one_line(queue + " is paused " +
                    (until ? "until " + format_utc(*until) + " UTC" : "until it is resumed") + " by " +
                    text_of(made, "by") + (reason.empty() ? "" : " (" + reason + ")")) +
           "\n";
  });
  if (!given().json) suggest_queue(session, queue);
  return kSuccess;
}

// "orders flows again, after 2h: ended the retry-after (task 4711 asked for 10m)"
std::string resumed_text(const std::string& queue, const Json& resumed) {
  const Json& ended = part_of(resumed, "ended");
  const auto has = [&](const char* what) {
    return std::find(ended.begin(), ended.end(), what) != ended.end();
  };
  const std::string held = text_of(resumed, "held_by");
  const bool pause = has("pause"), retry_after = has("retry_after");
  if (!pause && !retry_after) {
    if (has("breaker_wait")) return "the wait of a breaker has ended: " + held;
    if (held.empty()) return "nothing to do: " + queue + " is not paused";
    const std::string probe =
        text_of(resumed, "state") == "breaker_open" ? ", or now: rung resume " + queue + " --probe" : "";
    return "nothing to do: " + queue + " is not paused by a person: " + held + ". This ends by itself" +
           probe;
  }
  const EpochMs since = time_of(resumed, "since").value_or(EpochMs{});
  std::string text =
      fmt::format("{}, after {}", held.empty() ? queue + " flows again" : queue + " is not paused any more",
                  humanise(time_of(resumed, "until").value_or(since) - since));
  if (retry_after)
    text += fmt::format(": ended {}the retry-after ({})", pause ? "the pause and " : "",
                        text_of(resumed, "retry_after"));
  return held.empty() ? text : text + "; but " + held;
}

int resume(const CLI::App& c) {
  const std::string queue = value_of(c, "QUEUE");
  Session session(queue);
  return print_answer(change(session, queue, "/resume", c, kResume),
                      [&](const Json& ended) { return one_line(resumed_text(queue, ended)) + "\n"; });
}

// "-" if the end is not known in advance: a rate limit has none, and a half-open breaker closes when its
// probes succeed.
std::string end_cell(const Json& gate, EpochMs now) {
  const std::string state = text_of(gate, "state");
  if (state == "rate_limited" || state == "breaker_half_open") return "-";
  if (const auto until = time_of(gate, "until")) return relative(*until, now);
  return state == "paused" ? "until resumed" : "-";
}

std::string attached_cell(const Json& gate) {
  const Json& attached = part_of(gate, "attached");
  return !attached.is_boolean() ? "-" : attached.get<bool>() ? "yes" : "no";
}

std::string queues_table(const Json& queues, EpochMs now) {
  using enum Table::Align;
  if (queues.empty()) return "no queue has open tasks, is held back or attached\n";
  const auto state = [](const Json& gate) {
    QueueGate shown;
    shown.state = text_of(gate, "state");
    const bool flows = shown.state == "flowing" && number_of(gate, "unread") == 0;
    return Table::Cell(api::state_text(shown), flows ? Colour::green : Colour::yellow);
  };
  const auto reason = [](const Json& gate) {
    const std::int64_t unread = number_of(gate, "unread");
    if (const std::string why = text_of(gate, "reason"); !why.empty() || unread == 0)
      return why.empty() ? "-" : why;
    return fmt::format("no consumer: {} wait in it", unread);
  };
  Table table({{"QUEUE", left, 12, 0, text_cell("queue")},
               {"STATE", left, 0, 0, state},
               {"SINCE", left, 0, 3, time_cell("since", now)},
               {"UNTIL", left, 0, 0, [now](const Json& gate) { return end_cell(gate, now); }},
               {"WAITING", right, 0, 0, number_cell("waiting")},
               {"NEXT", left, 0, 2, time_cell("next_due_at", now)},
               {"PARKED", right, 0, 0, number_cell("parked")},
               {"ATTACHED", left, 0, 0, attached_cell},
               {"BY", left, 8, 1, text_cell("by")},
               {"REASON", left, 0, 0, reason}},
              queues);
  return table.str();
}

int show_queues(Session& session) {
  return print_answer(need(read_rows(*session.api, "/v1/queues", {}, "queues")),
                      [&](const Json& page) { return queues_table(part_of(page, "queues"), session.now); });
}

void add_queues(CLI::App& app) {
  CLI::App& c = add_command(
      app, "queues", "Lists the queues that have open tasks, are held back or attached",
      "Examples:\n"
      "  rung queues\n"
      "  rung queues --json | jq '.queues[] | select(.state == \"paused\")'\n"
      "STATE says what holds the queue back: a pause, its window, its breaker, or its rate.\n"
      "ATTACHED: whether the sidecars see that its dead letters come here; - is a queue that never was.\n"
      "REASON also says if deliveries wait in a queue that has no consumer.\n"
      "WAITING counts scheduled tasks, due or not. NEXT is the earliest due time.",
      [](const CLI::App& command) { return open_and_draw(command, show_queues); });
  add_watch(c);
}

}  // namespace

void add_pause(CLI::App& app) {
  CLI::App& c = add_command(
      app, "pause", "Pauses a queue: its tasks wait, and cost no attempt",
      "Examples:\n"
      "  rung pause orders --reason \"the shop is down\"     until it is resumed\n"
      "  rung pause orders --for 2h\n"
      "  rung pause orders --until 08:00                   the next 08:00 of this machine's clock\n"
      "  rung pause orders --until 2026-11-23T08:00:00Z\n"
      "In force on every sidecar within a second. Pausing a paused queue changes its end and its reason.",
      pause);
  add_text(c, "QUEUE", "The queue; it need not exist yet").required();
  add_fields(c, kPause);
  c.get_option("--for")->excludes("--until");

  CLI::App& again =
      add_command(app, "resume", "Ends the pause of a queue, or a retry-after that holds it back",
                  "Examples:\n"
                  "  rung resume orders\n"
                  "  rung resume orders --probe           the breaker tries the next task now\n"
                  "What is overdue goes out oldest first, at the queue's catch-up rate.",
                  resume);
  add_text(again, "QUEUE", "The queue").required();
  add_fields(again, kResume);

  add_queues(app);
}

}  // namespace rung::cli
