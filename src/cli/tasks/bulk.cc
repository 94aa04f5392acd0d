// rung bulk: lists and controls actions on many tasks.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/api/tasks/views.h"
#include "src/cli/shared/bulk_run.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/options.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"

namespace rung::cli {
namespace {

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
  return (table.empty() ? "no bulks yet\n" : table.str()) + more_text("more bulks", page);
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
  const auto at = [&](const char* name) { return moment_of(b, name, session.now); };
  std::string out;
  const auto field = [&](std::string_view label, std::string_view text) { out += detail(label, text); };
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

// The answer, or that there is no such bulk.
Json need_bulk(Result<Json> answer, std::int64_t id) {
  if (!answer && answer.error().kind == Error::Kind::not_found)
    throw Failed(kNotFound, fmt::format("bulk {} does not exist", id));
  return need(std::move(answer));
}

// Pause, resume and abort; `to`: the state that it leads to. A bulk that has ended does not change, which is
// an error.
int control(std::int64_t id, const std::string& action, const std::string& to, const Json& request,
            bool detach) {
  Session session;
  const bool put_back = request.contains("put_back");
  const Json b = need_bulk(control_bulk(session, std::to_string(id), action, request), id);
  const std::string state = text_of(b, "state");
  if (state == to && action == "resume" && !detach) return watch_bulk(session, b);
  if (given().json) print_json(b);
  if (state != to && !put_back)
    throw Failed(kUserError, fmt::format("bulk {} has already ended: it is {}", id, state));
  if (given().json) return kSuccess;
  print(action == "resume" ? fmt::format("bulk {} will be resumed by a sidecar\n", id)
                           : fmt::format("bulk {} is {} at {} of {}\n", id, one_line(state),
                                         number_of(b, "done"), number_of(b, "total")));
  if (action != "abort") return kSuccess;
  const auto after = session.api->get("/v1/bulks/" + std::to_string(id));
  const std::int64_t unsent = after ? number_of(part_of(*after, "outcomes"), "not_yet_sent") : 0;
  if (unsent == 0) return kSuccess;
  print(fmt::format("{} of its tasks are scheduled, and still go out", unsent));
  if (text_of(b, "action") == "redrive")
    print(fmt::format(": `rung bulk abort {} --put-back` parks them again", id));
  print("\n");
  return kSuccess;
}

// Adds a command for one bulk, which runs `run(id)`.
template <typename Run>
CLI::App& add_one(CLI::App& bulk, int* exit, const std::string& name, const std::string& summary,
                  const std::string& footer, const Run& run) {
  CLI::App& c = add_command(bulk, name, summary, footer);
  auto id = std::make_shared<std::int64_t>();
  c.add_option("ID", *id, "The bulk's id, as listed by rung bulk list")->required();
  c.callback([=, &c] { *exit = run(*id, c); });
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

  auto page = std::make_shared<PageOptions>(PageOptions{20});
  CLI::App& all =
      add_command(bulk, "list", "Lists bulks, newest first", "Examples:\n  rung bulk list --limit 5");
  add_page(all, *page);
  all.callback([page, exit] {
    Session session("", ConfigFor::reading);
    *exit = print_answer(need(read_rows(*session.api, "/v1/bulks", {}, "bulks", page->limit, page->cursor)),
                         [&](const Json& bulks) { return bulks_text(session, bulks); });
  });
  add_one(bulk, exit, "show", "Shows one bulk in detail", "Examples:\n  rung bulk show 7",
          [](std::int64_t id, const CLI::App&) {
            Session session("", ConfigFor::reading);
            return print_answer(need_bulk(session.api->get("/v1/bulks/" + std::to_string(id)), id),
                                [&](const Json& one) { return show_text(session, one); });
          });

  // What each of these takes besides the reason.
  static constexpr Field kReason{"reason", Is::reason, "TEXT", "Why; recorded in the audit"};
  static constexpr Field kPutBack{
      "put_back", Is::flag, "",
      "Of a redrive, also one that has ended: park what it has made due and is not sent yet"};
  static constexpr Field kRate{"rate", Is::real, "N", "New rate, in tasks per second", {}, {}, 0.01, 1e6};
  const auto add_control = [&](const std::string& action, const char* to, const char* summary,
                               const char* footer, std::vector<Field> fields) -> CLI::App& {
    fields.push_back(kReason);
    CLI::App& c = add_one(
        bulk, exit, action, summary, footer, [action, to, fields](std::int64_t id, const CLI::App& command) {
          Json request = Json::object();
          read_fields(command, fields, EpochMs{}, request);
          return control(id, action, to, request, action == "resume" && is_on(command, "--detach"));
        });
    add_fields(c, fields);
    return c;
  };
  add_control("pause", "paused", "Pauses a bulk, wherever it runs",
              "Examples:\n  rung bulk pause 7 --reason \"the shop is down\"", {});
  add_control("abort", "aborted", "Ends a bulk; tasks already changed stay changed",
              "Examples:\n"
              "  rung bulk abort 7\n"
              "  rung bulk abort 7 --put-back         what is not sent yet is parked again",
              {kPutBack});
  CLI::App& resume = add_control("resume", "running", "Resumes a bulk and watches it",
                                 "Examples:\n"
                                 "  rung bulk resume 7\n"
                                 "  rung bulk resume 7 --rate 100\n"
                                 "  rung bulk resume 7 --detach           without watching it",
                                 {kRate});
  add_flag(resume, "--detach", "Do not watch it");
}

}  // namespace rung::cli
