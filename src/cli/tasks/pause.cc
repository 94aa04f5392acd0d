// rung pause, resume, queues: when the tasks of a queue may go out.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/api/queues/queues.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"
#include "src/core/base/hex.h"

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
  print_answer(change(session, queue, "/pause", c, kPause),
               [](const Json& made) { return one_line(held_text(made)) + "\n"; });
  if (!given().json) suggest_queue(session, queue);
  return kSuccess;
}

// "orders: the pause and the retry after have ended, after 2h (task 4711 asked for 10m); queue orders: ..."
std::string resumed_text(const std::string& queue, const Json& resumed) {
  const std::string held = text_of(resumed, "held_by"), retry_after = text_of(resumed, "retry_after");
  const auto since = time_of(resumed, "since"), until = time_of(resumed, "until");
  std::string ended;
  for (const Json& what : part_of(resumed, "ended")) {
    std::string word = what.is_string() ? what.get<std::string>() : "";
    std::ranges::replace(word, '_', ' ');
    ended += (ended.empty() ? "the " : " and the ") + word;
  }
  std::string text = ended.empty() ? "nothing to do: " + queue + " is not paused by a person"
                                   : queue + ": " + ended + " ended";
  if (since && until) text += ", after " + humanise(*until - *since);
  if (!retry_after.empty()) text += " (" + retry_after + ")";
  if (!held.empty()) text += "; " + held;
  return text_of(resumed, "state") == "breaker_open" ? text + ": `rung resume --probe` tries one now" : text;
}

int resume(const CLI::App& c) {
  const std::string queue = value_of(c, "QUEUE");
  Session session(queue);
  return print_answer(change(session, queue, "/resume", c, kResume),
                      [&](const Json& ended) { return one_line(resumed_text(queue, ended)) + "\n"; });
}

std::string queues_table(const Json& queues, EpochMs now) {
  using enum Table::Align;
  if (queues.empty()) return "no queue has open tasks, is held back or attached\n";
  const auto reason = [](const Json& gate) {
    const std::int64_t unread = number_of(gate, "unread");
    if (const std::string why = text_of(gate, "reason"); !why.empty() || unread == 0)
      return why.empty() ? "-" : why;
    return fmt::format("no consumer: {} wait in it", unread);
  };
  Table table({{"QUEUE", left, 12, 0, text_cell("queue")},
               {"STATE", left, 0, 0, text_cell("state")},
               {"SINCE", left, 0, 3, time_cell("since", now)},
               {"UNTIL", left, 0, 0, time_cell("until", now)},
               {"WAITING", right, 0, 0, text_cell("waiting")},
               {"NEXT", left, 0, 2, time_cell("next_due_at", now)},
               {"PARKED", right, 0, 0, text_cell("parked")},
               {"ATTACHED", left, 0, 0, text_cell("attached")},
               {"BY", left, 8, 1, text_cell("by")},
               {"REASON", left, 0, 0, reason}},
              queues);
  return table.str();
}

int show_queues(Session& session) {
  return print_answer(need(read_rows(*session.api, "/v1/queues", {}, "queues")),
                      [&](const Json& page) { return queues_table(part_of(page, "queues"), session.now); });
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

  CLI::App& queues = add_command(
      app, "queues", "Lists the queues that have open tasks, are held back or attached",
      "Examples:\n"
      "  rung queues\n"
      "  rung queues --json | jq '.queues[] | select(.state == \"paused\")'\n"
      "STATE says what holds the queue back: a pause, its window, its breaker, or its rate.\n"
      "ATTACHED: whether the sidecars see that its dead letters come here; - is a queue that never was.\n"
      "REASON also says if deliveries wait in a queue that has no consumer.\n"
      "WAITING counts scheduled tasks, due or not. NEXT is the earliest due time.",
      [](const CLI::App& command) { return open_and_draw(command, show_queues); });
  add_watch(queues);
}

}  // namespace rung::cli
