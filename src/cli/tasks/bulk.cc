// rung bulk: lists and controls actions on many tasks.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/api/tasks/views.h"
#include "src/cli/shared/bulk_run.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

struct BulkCommandOptions {
  std::int64_t id = 0;
  int limit = 20;
  double rate = 0;
  bool detach = false, put_back = false;
  std::string cursor, reason;
};

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
  return (table.empty() ? "no bulks yet\n" : table.str(Terminal::of_stdout())) +
         more_text("more bulks", page);
}

int list(const BulkCommandOptions& o) {
  Session session;
  if (const int code = open_service(session, "", ConfigFor::reading); code != kSuccess) return code;
  const auto page =
      read_rows(*session.api, "/v1/bulks", {}, "bulks", static_cast<std::size_t>(o.limit), o.cursor);
  return print_answer(page, [&](const Json& all) { return bulks_text(session, all); });
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
  const auto at = [&](const char* name) {
    const auto time = time_of(b, name);
    return time ? moment(*time, session.now) : "";
  };
  std::string out;
  const auto field = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) out += fmt::format("{:<12}  {}\n", name, one_line(text));
  };
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

// Exits with 3 where there is no such bulk.
int report_failed(const BulkCommandOptions& o, const Error& error) {
  return error.kind == Error::Kind::not_found
             ? report_error(kNotFound, fmt::format("bulk {} does not exist", o.id))
             : report_error(error);
}

int show(const BulkCommandOptions& o) {
  Session session;
  if (const int code = open_service(session, "", ConfigFor::reading); code != kSuccess) return code;
  const auto bulk = session.api->get("/v1/bulks/" + std::to_string(o.id));
  if (!bulk) return report_failed(o, bulk.error());
  return print_answer(bulk, [&](const Json& one) { return show_text(session, one); });
}

// `action`: pause, resume or abort; `to`: the state that it leads to. A bulk that has ended does not change,
// which is an error.
int control(const BulkCommandOptions& o, const std::string& action, const std::string& to) {
  Session session;
  if (const int code = open_service(session); code != kSuccess) return code;
  Json body = Json::object();
  if (!o.reason.empty()) body["reason"] = o.reason;
  if (o.rate > 0) body["rate"] = o.rate;
  if (o.put_back) body["put_back"] = true;
  const auto changed = control_bulk(session, std::to_string(o.id), action, body);
  if (!changed) return report_failed(o, changed.error());
  const Json& b = *changed;
  const std::string state = text_of(b, "state");
  if (state == to && action == "resume" && !o.detach) return watch_bulk(session, b, given().json);
  if (given().json) print_json(b);
  if (state != to && !o.put_back)
    return report_error(kUserError, fmt::format("bulk {} has already ended: it is {}", o.id, state));
  if (given().json) return kSuccess;
  print(action == "resume" ? fmt::format("bulk {} will be resumed by a sidecar\n", o.id)
                           : fmt::format("bulk {} is {} at {} of {}\n", o.id, one_line(state),
                                         number_of(b, "done"), number_of(b, "total")));
  if (action != "abort") return kSuccess;
  const auto after = session.api->get("/v1/bulks/" + std::to_string(o.id));
  const std::int64_t unsent = after ? number_of(part_of(*after, "outcomes"), "not_yet_sent") : 0;
  if (unsent == 0) return kSuccess;
  print(fmt::format("{} of its tasks are scheduled, and still go out", unsent));
  if (text_of(b, "action") == "redrive")
    print(fmt::format(": `rung bulk abort {} --put-back` parks them again", o.id));
  print("\n");
  return kSuccess;
}

void add_reason(CLI::App& c, BulkCommandOptions& o) {
  c.add_option("--reason", o.reason, "Why; recorded in the audit")->type_name("TEXT");
}

CLI::App& add_one(CLI::App& bulk, const std::string& name, const std::string& summary,
                  const std::string& footer, BulkCommandOptions& options) {
  CLI::App& c = add_command(bulk, name, summary, footer);
  c.add_option("ID", options.id, "The bulk's id, as listed by rung bulk list")->required();
  return c;
}

}  // namespace

void add_bulk(CLI::App& app, int* exit) {
  CLI::App& bulk = add_command(
      app, "bulk", "Shows, pauses, resumes or aborts changes of many tasks",
      "rung cancel, discard, fire, redrive and finish create a bulk when given a filter; so does the HTTP "
      "API.\n"
      "\nExamples:\n"
      "  rung bulk list\n"
      "  rung bulk resume 7",
      Takes::none);
  bulk.require_subcommand(1);
  auto o = std::make_shared<BulkCommandOptions>();
  CLI::App& all =
      add_command(bulk, "list", "Lists bulks, newest first", "Examples:\n  rung bulk list --limit 5");
  all.add_option("--limit", o->limit, "Maximum number of rows")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  all.add_option("--cursor", o->cursor, "The next page: `next` of the previous one")->type_name("ID");
  all.callback([o, exit] { *exit = list(*o); });
  CLI::App& one = add_one(bulk, "show", "Shows one bulk in detail", "Examples:\n  rung bulk show 7", *o);
  one.callback([o, exit] { *exit = show(*o); });
  CLI::App& pause = add_one(bulk, "pause", "Pauses a bulk, wherever it runs",
                            "Examples:\n  rung bulk pause 7 --reason \"the shop is down\"", *o);
  add_reason(pause, *o);
  pause.callback([o, exit] { *exit = control(*o, "pause", "paused"); });
  CLI::App& abort = add_one(bulk, "abort", "Ends a bulk; tasks already changed stay changed",
                            "Examples:\n"
                            "  rung bulk abort 7\n"
                            "  rung bulk abort 7 --put-back         what is not sent yet is parked again",
                            *o);
  abort.add_flag("--put-back", o->put_back,
                 "Of a redrive, also one that has ended: park what it has made due and is not sent yet");
  add_reason(abort, *o);
  abort.callback([o, exit] { *exit = control(*o, "abort", "aborted"); });
  CLI::App& on = add_one(bulk, "resume", "Resumes a bulk and watches it",
                         "Examples:\n"
                         "  rung bulk resume 7\n"
                         "  rung bulk resume 7 --rate 100\n"
                         "  rung bulk resume 7 --detach           without watching it",
                         *o);
  on.add_option("--rate", o->rate, "New rate, in tasks per second")
      ->type_name("N")
      ->check(CLI::Range(0.01, 1e6));
  add_reason(on, *o);
  on.add_flag("--detach", o->detach, "Do not watch it");
  on.callback([o, exit] { *exit = control(*o, "resume", "running"); });
}

}  // namespace rung::cli
