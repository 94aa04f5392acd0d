// rung causes: what fails, why, how often, and what people have said about it.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/api/base/query.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/time.h"

namespace rung::cli {
namespace {

struct CausesOptions {
  std::string cause, queue, since;
  std::vector<std::string> states;
  std::string cursor;
  int limit = 20;
  bool all = false, watch = false;
};

std::string cause_state(const Json& cause) {
  return part_of(cause, "worse_at").is_string() ? "worse" : text_of(cause, "state");
}

Table::Cell cause_state_cell(const Json& cause) {
  const CauseState state = cause_state_from(text_of(cause, "state")).value_or(CauseState::known);
  const bool alarming = state == CauseState::fresh || state == CauseState::regressed;
  return {cause_state(cause), alarming                       ? Colour::red
                              : state == CauseState::working ? Colour::yellow
                                                             : Colour::dim};
}

Table::CellOf grouped_cell(const char* name) {
  return [name](const Json& row) { return Table::Cell(grouped(number_of(row, name))); };
}

// How a consumer makes a cause more precise; "" if it already says why. A plain reject has no reason.
std::string advice_of(const Json& cause) {
  const bool says_why = !text_of(cause, "error_type").empty();
  if (says_why || !text_of(cause, "sample").starts_with("dead-lettered: rejected")) return {};
  return "the consumer rejects without a reason. To see the reason here, publish the message to rung.failed "
         "with the headers retry-error and retry-error-type instead of rejecting it: docs/causes.md";
}

std::string causes_table(const Json& page, const CausesOptions& options, EpochMs now) {
  using enum Table::Align;
  const Json& causes = part_of(page, "causes");
  if (causes.empty()) {
    if (!options.all) return "no task that has failed is under way or parked (see --all)\n";
    return options.queue.empty() && options.states.empty() ? "nothing has failed\n" : "no cause matches\n";
  }
  const auto parked = [](const Json& cause) {
    const std::int64_t tasks = number_of(cause, "parked");
    return Table::Cell(grouped(tasks), tasks > 0 ? Colour::red : Colour::none);
  };
  Table table({{"CAUSE", left, 0, 0, text_cell("cause_id")},
               {"QUEUE", left, 10, 0, text_cell("queue")},
               {"LAST HOUR", right, 0, 0, grouped_cell("last_hour")},
               {"UNDER WAY", right, 0, 0, grouped_cell("scheduled")},
               {"PARKED", right, 0, 0, parked},
               {"SUCCEEDED", right, 0, 2, grouped_cell("succeeded")},
               {"FIRST", left, 0, 4, time_cell("first_seen", now)},
               {"LAST", left, 0, 3, time_cell("last_seen", now)},
               {"STATE", left, 0, 0, cause_state_cell},
               {"OWNER", left, 6, 1, text_cell("owner")},
               {"ERROR", left, 0, 0, cause_name}});
  table.wrap_last();
  std::string advice;
  for (const Json& cause : causes) {
    table.add(cause);
    const std::string note = text_of(cause, "note"), link = text_of(cause, "link");
    if (!note.empty() || !link.empty())
      table.note(note + (note.empty() || link.empty() ? "" : " ") + link, Colour::dim);
    if (advice.empty()) advice = advice_of(cause);
  }
  std::string out = table.str(Terminal::of_stdout());
  out += more_text("more causes", page);
  return advice.empty() ? out : out + "\n" + advice + "\n";
}

int show_causes(Session& session, const CausesOptions& options) {
  std::string states;
  for (const std::string& word : options.states) states += (states.empty() ? "" : ",") + word;
  std::optional<EpochMs> since;
  if (const int code = read_time("--since", options.since, session.now, Direction::past, since);
      code != kSuccess)
    return code;
  const auto page = read_page(*session.api, "/v1/causes",
                              {{"queue", options.queue},
                               {"state", states},
                               {"with_tasks", options.all ? "" : "true"},
                               {"since", since ? to_rfc3339(*since) : ""}},
                              "causes", static_cast<std::size_t>(options.limit), options.cursor);
  return print_answer(page, [&](const Json& all) { return causes_table(all, options, session.now); });
}

int report_no_id(const std::string& cause) {
  return report_error(kUserError,
                      "'" + cause + "' is not a cause: 12 hexadecimal digits, as rung causes shows them");
}

int show_cause(const CausesOptions& options) {
  if (!api::is_cause_id(options.cause)) return report_no_id(options.cause);
  Session session;
  if (const int code = open_service(session); code != kSuccess) return code;
  const auto cause = session.api->get("/v1/causes/" + options.cause);
  if (!cause) return report_error(cause.error());
  if (given().json) return print_json(*cause);
  const Json& c = *cause;
  std::string out;
  const auto field = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) out += fmt::format("{:<10}  {}\n", name, one_line(text));
  };
  const auto count = [&](const char* name) { return grouped(number_of(c, name)); };
  const auto at = [&](const char* name) { return moment(time_of(c, name).value_or(EpochMs{}), session.now); };
  const std::string owner = text_of(c, "owner");
  field("cause", text_of(c, "cause_id"));
  field("queue", text_of(c, "queue"));
  field("error", cause_name(c));
  field("state", cause_state(c) + (owner.empty() ? "" : ", owner " + owner));
  field("note", text_of(c, "note"));
  field("link", text_of(c, "link"));
  field("tasks", fmt::format("{} under way, {} parked, {} succeeded; {} ever", count("scheduled"),
                             count("parked"), count("succeeded"), count("total")));
  field("last hour", count("last_hour") + (number_of(c, "last_hour") == 1 ? " failure" : " failures"));
  field("first", at("first_seen"));
  field("last", at("last_seen"));
  for (const Json& header : part_of(c, "by_header")) {
    if (number_of(header, "count") > 0) out += "\n" + counts_text(header);
  }
  print(out);
  return kSuccess;
}

struct TriageOptions {
  std::string cause, text, link, state;
  bool nobody = false;
};

// `own`: whoever calls this owns it.
int triage(const TriageOptions& options, Json change, bool own = false) {
  if (!api::is_cause_id(options.cause)) return report_no_id(options.cause);
  Session session;
  if (const int code = open_service(session); code != kSuccess) return code;
  if (own) {
    const auto you = session.api->get("/v1/you");
    if (!you) return report_error(you.error());
    change["owner"] = text_of(*you, "name");
  }
  const auto changed = session.api->post("/v1/causes/" + options.cause, change);
  return print_answer(changed, [&](const Json& cause) {
    const std::string owner = text_of(cause, "owner"), note = text_of(cause, "note");
    return one_line("cause " + options.cause + " is " + text_of(cause, "state") +
                    (owner.empty() ? "" : ", owner " + owner) + (note.empty() ? "" : ": " + note)) +
           "\n";
  });
}

void add_triage(CLI::App& causes, int* exit) {
  auto n = std::make_shared<TriageOptions>();
  CLI::App& note =
      add_command(causes, "note", "Says what a cause is, for the other users",
                  "Example:\n"
                  "  rung causes note 9f2c41d07ab3 \"the bank's test account\" --link https://tickets/4711\n"
                  "A new cause becomes known.");
  note.add_option("CAUSE", n->cause, "The cause, as rung causes shows it")->required();
  note.add_option("TEXT", n->text, "The note; it replaces the former one")->required();
  note.add_option("--link", n->link, "A ticket or a page")->type_name("URL");
  note.add_option("--state", n->state, "Set the state, too")
      ->check(CLI::IsMember(std::vector<std::string>(kCauseWords.begin(), kCauseWords.end())));
  note.callback([n, exit] {
    Json change = {{"note", n->text}};
    if (!n->link.empty()) change["link"] = n->link;
    if (!n->state.empty()) change["state"] = n->state;
    *exit = triage(*n, change);
  });

  auto o = std::make_shared<TriageOptions>();
  CLI::App& own = add_command(causes, "own", "Says who works on a cause",
                              "Examples:\n"
                              "  rung causes own 9f2c41d07ab3             you do\n"
                              "  rung causes own 9f2c41d07ab3 alice\n"
                              "  rung causes own 9f2c41d07ab3 --nobody");
  own.add_option("CAUSE", o->cause, "The cause, as rung causes shows it")->required();
  CLI::Option* name = own.add_option("NAME", o->text, "Who works on it; you if left out");
  own.add_flag("--nobody", o->nobody, "Nobody any more")->excludes(name);
  own.callback([o, exit] {
    const bool me = !o->nobody && o->text.empty();
    *exit = triage(*o, {{"owner", o->nobody ? "" : o->text}}, me);
  });

  const auto add_state = [&](CauseState state, const char* word, const char* summary, const char* footer) {
    auto s = std::make_shared<TriageOptions>();
    CLI::App& c = add_command(causes, word, summary, footer);
    c.add_option("CAUSE", s->cause, "The cause, as rung causes shows it")->required();
    c.add_option("--note", s->text, "Why")->type_name("TEXT");
    c.callback([s, state, exit] {
      Json change = {{"state", to_word(state)}};
      if (!s->text.empty()) change["note"] = s->text;
      *exit = triage(*s, change);
    });
  };
  add_state(CauseState::ignored, "ignore", "Ignores a cause until it gets worse",
            "Example:\n"
            "  rung causes ignore 9f2c41d07ab3 --note \"expected until Friday\"\n"
            "It is new again, and an alert fires, when it fails ten times as often as it did in\n"
            "the hour before.");
  add_state(CauseState::resolved, "resolve", "Says that a cause is mended",
            "Example:\n"
            "  rung causes resolve 9f2c41d07ab3 --note \"mended in 1.2.3\"\n"
            "When its last task has ended, it is resolved by itself. If it fails again, it has\n"
            "regressed, and an alert fires.");
}

}  // namespace

void add_causes(CLI::App& app, int* exit) {
  auto o = std::make_shared<CausesOptions>();
  CLI::App& c =
      add_command(app, "causes", "Lists failures by cause: what fails, why, and how often",
                  "Examples:\n"
                  "  rung causes                                what fails now, the most tasks first\n"
                  "  rung causes --queue orders --state new,regressed\n"
                  "  rung causes 9f2c41d07ab3                   one of them\n"
                  "  rung list --cause 9f2c41d07ab3             the tasks of a cause\n"
                  "  rung redrive --cause 9f2c41d07ab3          try them again\n"
                  "Failures of a queue whose errors differ only in numbers, ids, quoted values, times and "
                  "the like have one\n"
                  "cause: docs/causes.md. LAST HOUR counts failures, the other columns count tasks.");
  c.add_option("CAUSE", o->cause, "Show only this one, with its tasks by each of index_headers");
  c.add_option("--queue", o->queue, "Causes of this queue")->type_name("QUEUE");
  c.add_option("--since", o->since,
               "Causes that have failed after this time; a duration counts back from now")
      ->type_name("TIME");
  c.add_option("--state", o->states, "Causes in this state; several: --state new,working")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(std::vector<std::string>(kCauseWords.begin(), kCauseWords.end())));
  c.add_flag("--all", o->all, "Include causes of which no task is under way or parked");
  c.add_option("--limit", o->limit, "Causes per page")
      ->check(CLI::Range(1, api::kMostOnPage))
      ->capture_default_str();
  c.add_option("--cursor", o->cursor, "The next page: `next` of the previous one")->type_name("CURSOR");
  add_watch(c, o->watch);
  c.require_subcommand(0, 1);
  c.callback([o, exit, &c] {
    if (!c.get_subcommands().empty()) return;
    const auto list = [&](Session& session) { return show_causes(session, *o); };
    *exit = o->cause.empty() ? open_and_draw(o->watch, o->queue, list) : show_cause(*o);
  });
  add_triage(c, exit);
}

}  // namespace rung::cli
