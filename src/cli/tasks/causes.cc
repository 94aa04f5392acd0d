// rung causes: what fails, why, how often, and what people have said about it.

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>

#include "src/api/base/message.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"
#include "src/core/base/time.h"

namespace rung::cli {
namespace {

// How a consumer makes a cause more precise; "" if it already says why. A plain reject has no reason.
std::string advice_of(const Json& cause) {
  const bool says_why = !text_of(cause, "error_type").empty();
  if (says_why || !text_of(cause, "sample").starts_with("dead-lettered: rejected")) return {};
  return "the consumer rejects without a reason. To see the reason here, publish the message to rung.failed "
         "with the headers retry-error and retry-error-type instead of rejecting it: docs/causes.md";
}

// `all`: nothing was asked for in particular. `ended`: also causes without tasks.
std::string causes_table(const Json& page, bool all, bool ended, EpochMs now) {
  using enum Table::Align;
  const Json& causes = part_of(page, "causes");
  if (causes.empty()) {
    if (!ended) return "no task that has failed is under way or parked (see --include-ended)\n";
    return all ? "nothing has failed\n" : "no cause matches\n";
  }
  const auto state = [](const Json& cause) {
    return part_of(cause, "worse_at").is_string() ? "worse" : text_of(cause, "state");
  };
  Table table({{"CAUSE", left, 0, 0, text_cell("cause_id")},
               {"QUEUE", left, 10, 0, text_cell("queue")},
               {"LAST HOUR", right, 0, 0, text_cell("last_hour")},
               {"UNDER WAY", right, 0, 0, text_cell("scheduled")},
               {"PARKED", right, 0, 0, text_cell("parked")},
               {"SUCCEEDED", right, 0, 2, text_cell("succeeded")},
               {"FIRST", left, 0, 4, time_cell("first_seen", now)},
               {"LAST", left, 0, 3, time_cell("last_seen", now)},
               {"STATE", left, 0, 0, state},
               {"OWNER", left, 6, 1, text_cell("owner")},
               {"ERROR", left, 0, 0, cause_name}});
  table.whole_last();
  std::string advice;
  for (const Json& cause : causes) {
    table.add(cause);
    const std::string note = text_of(cause, "note"), link = text_of(cause, "link");
    if (!note.empty() || !link.empty()) table.note(note + (note.empty() || link.empty() ? "" : " ") + link);
    if (advice.empty()) advice = advice_of(cause);
  }
  std::string out = table.str();
  out += more_text("more causes", page);
  return advice.empty() ? out : out + "\n" + advice + "\n";
}

int show_causes(Session& session, const CLI::App& c, std::span<const Field> fields) {
  const bool all = given_of(c, fields).empty(), ended = is_on(c, "--include-ended");
  Parameters parameters = read_params(c, fields, session.now);
  if (!ended) parameters.emplace_back("with_tasks", "true");
  return print_answer(read_page_of(c, session, "/v1/causes", parameters, "causes"),
                      [&](const Json& causes) { return causes_table(causes, all, ended, session.now); });
}

// "/v1/causes/9f2c41d07ab3"
std::string cause_path(const std::string& cause) {
  if (!api::is_cause_id(cause))
    throw Failed(kUserError,
                 "'" + cause + "' is not a cause: 12 hexadecimal digits, as rung causes shows them");
  return "/v1/causes/" + cause;
}

int show_cause(const std::string& id) {
  const std::string path = cause_path(id);
  Session session;
  Json cause = need(session.api->get(path));
  if (given().json) return print_json(cause);
  const Json headers = part_of(cause, "by_header");
  cause["sample"] = cause_name(cause);
  for (const char* long_list : {"by_header", "trend"}) cause.erase(long_list);
  std::string out = facts_text(cause, session.now);
  for (const Json& header : headers) {
    if (number_of(header, "count") > 0) out += "\n" + counts_text(header);
  }
  print(out);
  return kSuccess;
}

constexpr Field kNote{"note", Is::text, "TEXT", "Why"};
constexpr Field kOfNote[] = {{"link", Is::text, "URL", "A ticket or a page"},
                             {"state", Is::word, "TEXT", "Set the state, too", "", 0, 0, kWords<CauseState>}};

// Adds a command that changes a cause; `fields` are options. `change` is the rest of the request.
CLI::App& add_triage(CLI::App& causes, const std::string& name, const char* summary, const char* footer,
                     std::span<const Field> fields,
                     const std::function<Json(Session& session, const CLI::App& command)>& change) {
  CLI::App& c = add_command(causes, name, summary, footer, [=](const CLI::App& command) {
    const std::string cause = value_of(command, "CAUSE"), path = cause_path(cause);
    Session session;
    Json request = change(session, command);
    read_fields(command, fields, session.now, request);
    return print_answer(need(session.api->post(path, request)), [&](const Json& changed) {
      const std::string owner = text_of(changed, "owner"), note = text_of(changed, "note");
      return one_line("cause " + cause + " is " + text_of(changed, "state") +
                      (owner.empty() ? "" : ", owner " + owner) + (note.empty() ? "" : ": " + note)) +
             "\n";
    });
  });
  add_text(c, "CAUSE", "The cause, as rung causes shows it").required();
  add_fields(c, fields);
  return c;
}

}  // namespace

void add_causes(CLI::App& app) {
  const std::vector<Field> fields = params_of("listCauses", {"with_tasks"});
  CLI::App& causes = add_command(
      app, "causes", "Lists failures by cause: what fails, why, and how often",
      "Examples:\n"
      "  rung causes                                what fails now, the most tasks first\n"
      "  rung causes --queue orders --state new,regressed\n"
      "  rung causes 9f2c41d07ab3                   one of them\n"
      "  rung list --cause 9f2c41d07ab3             the tasks of a cause\n"
      "  rung redrive --cause 9f2c41d07ab3          try them again\n"
      "Failures of a queue whose errors differ only in numbers, ids, quoted values, times and the\n"
      "like have one cause: docs/causes.md. LAST HOUR counts failures, the other columns count tasks.",
      [fields](const CLI::App& command) {
        const std::string cause = value_of(command, "CAUSE");
        if (!cause.empty()) return show_cause(cause);
        return open_and_draw(command,
                             [&](Session& session) { return show_causes(session, command, fields); });
      });
  add_text(causes, "CAUSE", "Show only this one, with its tasks by each of index_headers");
  add_fields(causes, fields);
  add_flag(causes, "--include-ended,--all", "Include causes of which no task is under way or parked");
  add_page(causes, 20);
  add_watch(causes);
  causes.require_subcommand(0, 1);

  CLI::App& note =
      add_triage(causes, "note", "Says what a cause is, for the other users",
                 "Example:\n"
                 "  rung causes note 9f2c41d07ab3 \"the bank's test account\" --link https://tickets/4711\n"
                 "A new cause becomes known.",
                 kOfNote, [](Session&, const CLI::App& c) {
                   return Json{{"note", value_of(c, "TEXT")}};
                 });
  add_text(note, "TEXT", "The note; it replaces the former one").required();
  CLI::App& own = add_triage(
      causes, "own", "Says who works on a cause",
      "Examples:\n"
      "  rung causes own 9f2c41d07ab3             you do\n"
      "  rung causes own 9f2c41d07ab3 alice\n"
      "  rung causes own 9f2c41d07ab3 --nobody",
      {}, [](Session& session, const CLI::App& c) {
        const std::string name = value_of(c, "NAME");
        const bool is_caller = name.empty() && !is_on(c, "--nobody");
        return Json{{"owner", is_caller ? text_of(need(session.api->get("/v1/you")), "name") : name}};
      });
  CLI::Option& who = add_text(own, "NAME", "Who works on it; you if left out");
  add_flag(own, "--nobody", "Clear the owner").excludes(&who);

  const auto set_to = [](CauseState state) {
    return [state](Session&, const CLI::App&) { return Json{{"state", to_word(state)}}; };
  };
  add_triage(causes, "ignore", "Ignores a cause until it gets worse",
             "Example:\n"
             "  rung causes ignore 9f2c41d07ab3 --note \"expected until Friday\"\n"
             "It is new again, and an alert fires, when it fails ten times as often as it did in\n"
             "the hour before.",
             {&kNote, 1}, set_to(CauseState::ignored));
  add_triage(causes, "resolve", "Says that a cause is mended",
             "Example:\n"
             "  rung causes resolve 9f2c41d07ab3 --note \"mended in 1.2.3\"\n"
             "When its last task has ended, it is resolved by itself. If it fails again, it has\n"
             "regressed, and an alert fires.",
             {&kNote, 1}, set_to(CauseState::resolved));
}

}  // namespace rung::cli
