// rung bulk: lists and controls actions on many tasks.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/api/tasks/bulks.h"
#include "src/api/tasks/pages.h"
#include "src/api/tasks/views.h"
#include "src/cli/shared/bulk_run.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

struct BulkCommandOptions {
  Common common;
  std::int64_t id = 0;
  int limit = 20;
  double rate = 0;
  bool detach = false, put_back = false;
  std::string cursor, reason;
};

int report_no_bulk(std::int64_t id) {
  return report_error(kNotFound, fmt::format("bulk {} does not exist", id));
}

int list(const BulkCommandOptions& o) {
  Session session;
  if (const int code = open_service(o.common, session, "", ConfigFor::reading); code != kSuccess) return code;
  std::optional<std::int64_t> below;
  if (const int code = read_cursor(o.cursor, below); code != kSuccess) return code;
  auto bulks = session.service.bulks->list(o.limit + 1, below);
  if (!bulks) return report_error(bulks.error());
  if (o.common.json) return print_json(api::bulks_page(*bulks, o.limit));
  const bool more = std::ssize(*bulks) > o.limit;
  if (more) bulks->pop_back();
  if (bulks->empty()) {
    print("no bulks yet\n");
    return kSuccess;
  }
  using enum Table::Align;
  Table table({{"BULK", right},
               {"ACTION", left},
               {"STATE", left},
               {"DONE", right},
               {"TOTAL", right},
               {"REFUSED", right},
               {"CREATED", left},
               {"WHO", left},
               {"RUNNER", left},
               {"FILTER", left}});
  for (const Bulk& b : *bulks) {
    table.row({std::to_string(b.id), std::string(to_word(b.action)), std::string(to_word(b.state)),
               std::to_string(b.done), std::to_string(b.total), std::to_string(b.refused),
               relative(b.created_at, session.now), b.who, b.runner.empty() ? "-" : b.runner,
               tasks_of(session, b)});
  }
  print(table.str(Terminal::of_stdout()));
  if (more) print(fmt::format("\nmore bulks: add --cursor {} for the next page\n", bulks->back().id));
  return kSuccess;
}

std::string show_text(Session& session, const Bulk& b, const api::Outcomes& outcomes) {
  const SentCounts& counts = outcomes.counts;
  const auto at = [&](EpochMs t) { return moment(t, session.now); };
  std::string out;
  const auto field = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) out += fmt::format("{:<12}  {}\n", name, one_line(text));
  };
  field("bulk", std::to_string(b.id));
  field("action", std::string(to_word(b.action)));
  field("state", std::string(to_word(b.state)));
  field("tasks", tasks_of(session, b));
  field("reason", b.reason);
  if (b.elsewhere.is_set()) {
    Task task;
    task.queue = b.elsewhere.queue;
    task.exchange = b.elsewhere.exchange;
    task.routing_key = b.elsewhere.routing_key;
    field("to", destination(task));
  }
  if (b.rate > 0)
    field("rate", fmt::format("{} per second{}", b.rate, b.care.ramp ? ", ramping up from 1" : ""));
  if (b.care.canary > 0)
    field("canary", fmt::format("{}, {}", b.care.canary,
                                b.care.watch ? "watched for " + levels::format_duration(*b.care.watch)
                                             : "watched for as long as the queue's silence lasts"));
  if (b.care.stop_above) field("stops above", api::percent_text(*b.care.stop_above) + " failures");
  field("progress", bar(b.done, b.total, 30) + fmt::format(" {} of {}", b.done, b.total));
  field("outcome", outcome_of(b));
  if (counts.sent > 0)
    field("since then", fmt::format("{} succeeded, {} failed, {} without an answer, {} not sent yet{}",
                                    counts.succeeded, counts.failed, counts.open, counts.unsent,
                                    b.done > api::kOutcomesCounted ? " (of the latest)" : ""));
  for (const QueueGate& gate : outcomes.held) field("held", held_text(gate));
  field("waits", counts.unread);
  field("stopped", b.stopped_because);
  if (b.state == BulkState::stopped) field("the rest", rest_of(b));
  if (b.changed_at)
    field("changed", fmt::format("{} by {}{}{}", at(*b.changed_at), b.changed_by,
                                 b.changed_because.empty() ? "" : ": ", b.changed_because));
  field("who", b.who);
  field("runner", b.runner);
  field("created", at(b.created_at));
  if (b.finished_at) field("finished", at(*b.finished_at));
  return out;
}

int show(const BulkCommandOptions& o) {
  Session session;
  if (const int code = open_service(o.common, session, "", ConfigFor::reading); code != kSuccess) return code;
  auto bulk = session.service.bulks->find(o.id);
  if (!bulk) return report_error(bulk.error());
  if (!*bulk) return report_no_bulk(o.id);
  auto counts = session.service.bulks->outcomes(**bulk);
  if (!counts) return report_error(counts.error());
  if (o.common.json) return print_json(api::to_json(**bulk, *counts));
  print(show_text(session, **bulk, counts->value_or(api::Outcomes{})));
  return kSuccess;
}

// A bulk that has ended does not change, which is an error.
int control(const BulkCommandOptions& o, BulkState to) {
  Session session;
  if (const int code = open_service(o.common, session); code != kSuccess) return code;
  const auto rate = o.rate > 0 ? std::optional<double>(o.rate) : std::nullopt;
  auto bulk = session.service.bulks->control({o.id, to, rate, "", o.reason, o.put_back});
  if (!bulk) return report_error(bulk.error());
  if (!*bulk) return report_no_bulk(o.id);
  const Bulk& b = **bulk;
  if (b.state == to && to == BulkState::running && !o.detach) return run_bulk(session, b, o.common.json);
  if (o.common.json) print_json(api::to_json(b));
  if (b.state != to && !o.put_back)
    return report_error(kUserError,
                        fmt::format("bulk {} has already ended: it is {}", b.id, to_word(b.state)));
  if (o.common.json) return kSuccess;
  print(to == BulkState::running
            ? fmt::format("bulk {} will be resumed by a sidecar\n", b.id)
            : fmt::format("bulk {} is {} at {} of {}\n", b.id, to_word(b.state), b.done, b.total));
  if (to != BulkState::aborted) return kSuccess;
  const auto left = session.service.bulks->outcomes(b);
  if (left && *left && (*left)->counts.unsent > 0) {
    print(fmt::format("{} of its tasks are scheduled, and still go out", (*left)->counts.unsent));
    if (b.action == BulkAction::redrive)
      print(fmt::format(": `rung bulk abort {} --put-back` parks them again", b.id));
    print("\n");
  }
  return kSuccess;
}

void add_reason(CLI::App& c, BulkCommandOptions& o) {
  c.add_option("--reason", o.reason, "Why; recorded in the audit")->type_name("TEXT");
}

CLI::App& add_one(CLI::App& bulk, const std::string& name, const std::string& summary,
                  const std::string& footer, BulkCommandOptions& options) {
  CLI::App& c = add_service_command(bulk, name, summary, footer, options.common);
  c.add_option("ID", options.id, "The bulk's id, as listed by rung bulk list")->required();
  return c;
}

}  // namespace

void add_bulk(CLI::App& app, int* exit) {
  CLI::App& bulk = *app.add_subcommand("bulk", "Shows, pauses, resumes or aborts changes of many tasks");
  bulk.require_subcommand(1);
  bulk.footer(
      "\nrung cancel, discard, fire, redrive and finish create a bulk when given a filter; so does the HTTP "
      "API.\n"
      "\nExamples:\n"
      "  rung bulk list\n"
      "  rung bulk resume 7");
  auto o = std::make_shared<BulkCommandOptions>();
  CLI::App& all = add_service_command(bulk, "list", "Lists bulks, newest first",
                                      "Examples:\n  rung bulk list --limit 5", o->common);
  add_utc(all);
  all.add_option("--limit", o->limit, "Maximum number of rows")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  all.add_option("--cursor", o->cursor, "The next page: `next` of the previous one")->type_name("ID");
  all.callback([o, exit] { *exit = list(*o); });
  CLI::App& one = add_one(bulk, "show", "Shows one bulk in detail", "Examples:\n  rung bulk show 7", *o);
  add_utc(one);
  one.callback([o, exit] { *exit = show(*o); });
  CLI::App& pause = add_one(bulk, "pause", "Pauses a bulk, wherever it runs",
                            "Examples:\n  rung bulk pause 7 --reason \"the shop is down\"", *o);
  add_reason(pause, *o);
  pause.callback([o, exit] { *exit = control(*o, BulkState::paused); });
  CLI::App& abort = add_one(bulk, "abort", "Ends a bulk; tasks already changed stay changed",
                            "Examples:\n"
                            "  rung bulk abort 7\n"
                            "  rung bulk abort 7 --put-back         what is not sent yet is parked again",
                            *o);
  abort.add_flag("--put-back", o->put_back,
                 "Of a redrive, also one that has ended: park what it has made due and is not sent yet");
  add_reason(abort, *o);
  abort.callback([o, exit] { *exit = control(*o, BulkState::aborted); });
  CLI::App& on = add_one(bulk, "resume", "Resumes a bulk and runs it here",
                         "Examples:\n"
                         "  rung bulk resume 7\n"
                         "  rung bulk resume 7 --rate 100\n"
                         "  rung bulk resume 7 --detach           let a sidecar run it",
                         *o);
  on.add_option("--rate", o->rate, "New rate, in tasks per second")
      ->type_name("N")
      ->check(CLI::Range(0.01, 1e6));
  add_reason(on, *o);
  on.add_flag("--detach", o->detach, "Let a sidecar run it");
  on.callback([o, exit] { *exit = control(*o, BulkState::running); });
}

}  // namespace rung::cli
