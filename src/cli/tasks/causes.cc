// rung causes: what fails, why, how often, and what people have said about it.
#include "src/api/tasks/causes.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/api/tasks/pages.h"
#include "src/api/tasks/views.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/utf8.h"

namespace rung::cli {
namespace {

struct CausesOptions {
  Common common;
  std::string cause, queue, since;
  std::vector<std::string> states;
  std::string cursor;
  int limit = 20;
  bool all = false, watch = false;
};

Colour colour_of_cause(CauseState state) {
  switch (state) {
    case CauseState::fresh:
    case CauseState::regressed:
      return Colour::red;
    case CauseState::working:
      return Colour::yellow;
    default:
      return Colour::dim;
  }
}

std::string causes_table(const api::Causes& causes, const CausesOptions& options, EpochMs now) {
  using enum Table::Align;
  if (causes.rows.empty()) {
    if (!options.all) return "no task that has failed is under way or parked (see --all)\n";
    return options.queue.empty() && options.states.empty() ? "nothing has failed\n" : "no cause matches\n";
  }
  Table table({{"CAUSE", left},
               {"QUEUE", left, 10},
               {"LAST HOUR", right},
               {"UNDER WAY", right},
               {"PARKED", right},
               {"SUCCEEDED", right, 0, 2},
               {"FIRST", left, 0, 4},
               {"LAST", left, 0, 3},
               {"STATE", left},
               {"OWNER", left, 6, 1},
               {"ERROR", left}});
  table.wrap_last();
  std::string advice;
  for (const CauseRow& cause : causes.rows) {
    table.row({cause.id,
               cause.queue.empty() ? "-" : cause.queue,
               grouped(cause.last_hour),
               grouped(cause.scheduled),
               {grouped(cause.parked), cause.parked > 0 ? Colour::red : Colour::none},
               grouped(cause.succeeded),
               relative(cause.first_seen, now),
               relative(cause.last_seen, now),
               {cause.worse_at ? "worse" : std::string(to_word(cause.state)), colour_of_cause(cause.state)},
               cause.owner.empty() ? "-" : cause.owner,
               api::name_of(cause)});
    if (!cause.note.empty() || !cause.link.empty())
      table.note(cause.note + (cause.note.empty() || cause.link.empty() ? "" : " ") + cause.link,
                 Colour::dim);
    if (advice.empty()) advice = api::advice(cause);
  }
  std::string out = table.str(Terminal::of_stdout());
  if (!causes.next.empty()) out += "\nmore causes: add --cursor " + causes.next + " for the next page\n";
  if (!advice.empty()) out += "\n" + advice + "\n";
  return out;
}

int show_causes(const CausesOptions& options) {
  CauseFilter filter;
  filter.queue = options.queue;
  for (const std::string& word : options.states) filter.states.push_back(*cause_state_from(word));
  filter.with_tasks = !options.all;
  std::optional<std::int64_t> offset;
  if (const int code = read_cursor(options.cursor, offset); code != kSuccess) return code;
  filter.offset = offset.value_or(0);
  filter.limit = options.limit;
  Session session;
  if (const int code = open_service(options.common, session, options.queue, ConfigFor::reading);
      code != kSuccess)
    return code;
  const auto draw = [&]() -> int {
    if (const int code = read_time("--since", options.since, session.now, Direction::past, filter.since);
        code != kSuccess)
      return code;
    const auto causes = session.service.system->causes(filter);
    if (!causes) return report_error(causes.error());
    print(options.common.json ? dump(api::to_json(*causes)) + "\n"
                              : causes_table(*causes, options, session.now));
    return kSuccess;
  };
  return options.watch ? watch(session, draw) : draw();
}

int report_no_id(const std::string& cause) {
  return report_error(kUserError,
                      "'" + cause + "' is not a cause: 12 hexadecimal digits, as rung causes shows them");
}

int show_cause(const CausesOptions& options) {
  if (!api::is_cause_id(options.cause)) return report_no_id(options.cause);
  Session session;
  if (const int code = open_service(options.common, session); code != kSuccess) return code;
  const auto json = session.service.system->cause(options.cause);
  if (!json) return report_error(json.error());
  if (options.common.json) return print_json(*json);
  const auto cause = api::cause_from_json(*json);
  if (!cause) return report_error(cause.error());
  const CauseRow& c = *cause;
  std::string out;
  const auto field = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) out += fmt::format("{:<10}  {}\n", name, one_line(text));
  };
  field("cause", c.id);
  field("queue", c.queue);
  field("error", api::name_of(c));
  field("state",
        std::string(c.worse_at ? "worse" : to_word(c.state)) + (c.owner.empty() ? "" : ", owner " + c.owner));
  field("note", c.note);
  field("link", c.link);
  field("tasks", fmt::format("{} under way, {} parked, {} succeeded; {} ever", grouped(c.scheduled),
                             grouped(c.parked), grouped(c.succeeded), grouped(c.total)));
  field("last hour", grouped(c.last_hour) + (c.last_hour == 1 ? " failure" : " failures"));
  field("first", moment(c.first_seen, session.now));
  field("last", moment(c.last_seen, session.now));
  if (const auto headers = json->find("by_header"); headers != json->end()) {
    for (const Json& header : *headers) {
      const auto counts = api::counts_from_json(header);
      const auto by = CountBy::parse(header.value("by", ""));
      if (counts && by && counts->total > 0) out += "\n" + counts_text(*counts, *by);
    }
  }
  print(out);
  return kSuccess;
}

struct TriageOptions {
  Common common;
  std::string cause, text, link, state;
  bool nobody = false;
};

// `own`: whoever calls this owns it.
int triage(const TriageOptions& options, const CauseTriage& change, bool own = false) {
  if (!api::is_cause_id(options.cause)) return report_no_id(options.cause);
  Session session;
  if (const int code = open_service(options.common, session); code != kSuccess) return code;
  CauseTriage whole = change;
  if (own) {
    auto name = session.service.system->my_name();
    if (!name) return report_error(name.error());
    whole.owner = *std::move(name);
  }
  const auto changed = session.service.system->triage(options.cause, whole);
  if (!changed) return report_error(changed.error());
  if (options.common.json) return print_json(api::to_json(*changed));
  std::string text = fmt::format("cause {} is {}", changed->id, to_word(changed->state));
  if (!changed->owner.empty()) text += ", owner " + changed->owner;
  if (!changed->note.empty()) text += ": " + changed->note;
  print(one_line(text) + "\n");
  return kSuccess;
}

void add_triage(CLI::App& causes, int* exit) {
  auto n = std::make_shared<TriageOptions>();
  CLI::App& note = add_service_command(
      causes, "note", "Says what a cause is, for the other users",
      "Example:\n"
      "  rung causes note 9f2c41d07ab3 \"the bank's test account\" --link https://tickets/4711\n"
      "A new cause becomes known.",
      n->common);
  note.add_option("CAUSE", n->cause, "The cause, as rung causes shows it")->required();
  note.add_option("TEXT", n->text, "The note; it replaces the former one")->required();
  note.add_option("--link", n->link, "A ticket or a page")->type_name("URL");
  note.add_option("--state", n->state, "Set the state, too")
      ->check(CLI::IsMember(std::vector<std::string>(kCauseWords.begin(), kCauseWords.end())));
  note.callback([n, exit] {
    CauseTriage change{.note = n->text};
    if (!n->link.empty()) change.link = n->link;
    if (!n->state.empty()) change.state = cause_state_from(n->state);
    *exit = triage(*n, change);
  });

  auto o = std::make_shared<TriageOptions>();
  CLI::App& own = add_service_command(causes, "own", "Says who works on a cause",
                                      "Examples:\n"
                                      "  rung causes own 9f2c41d07ab3             you do\n"
                                      "  rung causes own 9f2c41d07ab3 alice\n"
                                      "  rung causes own 9f2c41d07ab3 --nobody",
                                      o->common);
  own.add_option("CAUSE", o->cause, "The cause, as rung causes shows it")->required();
  CLI::Option* name = own.add_option("NAME", o->text, "Who works on it; you if left out");
  own.add_flag("--nobody", o->nobody, "Nobody any more")->excludes(name);
  own.callback([o, exit] {
    const bool me = !o->nobody && o->text.empty();
    *exit = triage(*o, {.owner = o->nobody ? "" : o->text}, me);
  });

  const auto add_state = [&](CauseState state, const char* word, const char* summary, const char* footer) {
    auto s = std::make_shared<TriageOptions>();
    CLI::App& c = add_service_command(causes, word, summary, footer, s->common);
    c.add_option("CAUSE", s->cause, "The cause, as rung causes shows it")->required();
    c.add_option("--note", s->text, "Why")->type_name("TEXT");
    c.callback([s, state, exit] {
      CauseTriage change{.state = state};
      if (!s->text.empty()) change.note = s->text;
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
  CLI::App& c = add_service_command(
      app, "causes", "Lists failures by cause: what fails, why, and how often",
      "Examples:\n"
      "  rung causes                                what fails now, the most tasks first\n"
      "  rung causes --queue orders --state new,regressed\n"
      "  rung causes 9f2c41d07ab3                   one of them\n"
      "  rung list --cause 9f2c41d07ab3             the tasks of a cause\n"
      "  rung redrive --cause 9f2c41d07ab3          try them again\n"
      "Failures of a queue whose errors differ only in numbers, ids, quoted values, times and "
      "the like have one\n"
      "cause: docs/causes.md. LAST HOUR counts failures, the other columns count tasks.",
      o->common);
  c.add_option("CAUSE", o->cause, "Show only this one, with its tasks by each of index_headers");
  c.add_option("--queue", o->queue, "Causes of this queue")->type_name("NAME");
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
  add_utc(c);
  add_watch(c, o->watch)->excludes("--json");
  c.require_subcommand(0, 1);
  c.callback([o, exit, &c] {
    if (c.get_subcommands().empty()) *exit = o->cause.empty() ? show_causes(*o) : show_cause(*o);
  });
  add_triage(c, exit);
}

}  // namespace rung::cli
