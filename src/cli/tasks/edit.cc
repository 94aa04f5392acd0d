// rung edit: a parked task goes out again with another body or other headers, as a new task.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "src/api/messages/messages.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/options.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/machine.h"

namespace rung::cli {
namespace {

constexpr Field kEdit[] = {
    {"set_headers", Is::pairs, "NAME=VALUE",
     "Add or change a header; can be repeated. A number or true/false keeps its type", "--set-header"},
    {"unset_headers", Is::list, "NAME", "Remove a header; can be repeated", "--unset-header"},
    {"reason", Is::reason, "TEXT", "Why; recorded in the task's audit"}};

// A number or true/false keeps its type, also one that JSON does not have ({"!i32": 5}). A text stays one,
// and may take the place of anything else.
Json value_like(const Json& before, const std::string& text) {
  const Json value = Json::parse(text, nullptr, false);
  if (before.is_boolean() && value.is_boolean()) return value;
  if (before.is_number_integer() && value.is_number_integer()) return value;
  if (before.is_number_float() && value.is_number()) return value.get<double>();
  const bool tagged = before.is_object() && before.size() == 1 && before.front().is_number();
  if (!tagged || before.begin().key().ends_with("bits") || !value.is_number()) return text;
  Json like = before;
  like.front() = value;
  return like;
}

// What shall change, for the API. `message`: as it is.
Json request_of(const CLI::App& c, const Json& message) {
  Json body = {{"version", part_of(message, "version")}};
  read_fields(c, kEdit, EpochMs{}, body);
  const std::string file = value_of(c, "--body");
  if (!file.empty()) body["body_base64"] = api::to_base64(read_bytes(file));
  if (body.contains("set_headers")) {
    for (const auto& [name, value] : body["set_headers"].items())
      value = value_like(part_of(part_of(message, "headers"), name), value.get<std::string>());
  }
  return body;
}

std::string cell(const Json& header) {
  if (header.is_null()) return "(none)";
  return clean_utf8(one_line(header.is_string() ? header.get<std::string>() : dump(header, false)), 200);
}

bool confirmed(const Json& task, const Json& message, const Json& request) {
  std::string text;
  if (request.contains("body_base64"))
    text += fmt::format("  body: {} bytes -> {} bytes\n", number_of(task, "body_bytes"),
                        api::from_base64(text_of(request, "body_base64")).value_or("").size());
  const Json &before = part_of(message, "headers"), &unset = part_of(request, "unset_headers");
  for (const auto& [name, value] : part_of(request, "set_headers").items())
    text += fmt::format("  {}: {} -> {}\n", one_line(name), cell(part_of(before, name)), cell(value));
  for (const Json& name : unset)
    text += fmt::format("  {}: {} -> (none)\n", one_line(name.get<std::string>()),
                        cell(part_of(before, name.get<std::string>())));
  return says_yes(fmt::format("{}send it to {} as a new task, in place of {}? [y/N] ", text,
                              one_line(destination(task)), one_line(text_of(task, "retry_id"))));
}

int send(Session& session, const std::string& id, const Json& task, const Json& request) {
  if (auto now = session.api->now()) session.now = *now;
  const Answer answer = need(session.api->call("POST", path_of(task) + "/edit", &request, false));
  if (answer.good()) {
    const std::string copy = text_of(answer.json, "retry_id");
    const bool made = answer.status == 201;
    return tell_result(
        session, result_json(copy, made ? "created" : "duplicate",
                             made ? "" : "it was replaced by task " + copy + " already, with this message",
                             answer.json));
  }
  if (!part_of(answer.json, "errors").empty()) throw Failed(error_of(answer));
  const auto original = session.api->get(path_of(task));
  if (!original && original.error().kind != Error::Kind::not_found) throw Failed(original.error());
  const std::string why = answer.status == 404 ? std::string(kNoSuchTask) : answer.text("detail");
  if (given().json) print_json(result_json("", "refused", why, original ? *original : Json()));
  throw Failed(original ? kUserError : kNotFound, id + ": " + why);
}

int edit(const CLI::App& c) {
  const std::string id = value_of(c, "ID"), file = value_of(c, "--body");
  if (file.empty() && c.count("--set-header") == 0 && c.count("--unset-header") == 0)
    throw Failed(kUserError, "nothing would change: give --body, --set-header or --unset-header");
  Session session;
  const Json task = find_task(session, id, true);
  const Json message = need(session.api->get(path_of(task) + "/message"));
  const Json request = request_of(c, message);
  // The API refuses a task that is not parked, or says that it has been replaced.
  const bool asks = !is_on(c, "--yes") && can_ask() && file != "-" && state_of(task) == State::parked;
  if (asks && !confirmed(task, message, request)) throw Failed(kUserError, "nothing was sent");
  return send(session, id, task, request);
}

}  // namespace

void add_edit(CLI::App& app) {
  CLI::App& c = add_command(
      app, "edit", "Sends a parked task again with another body or other headers, as a new task",
      "Examples:\n"
      "  rung edit 249107395289088 --body fixed.json --reason \"city was missing\"\n"
      "  rung edit 249107395289088 --set-header tenant=acme --unset-header x-debug --yes\n"
      "  rung show 249107395289088 --raw | jq '.city = \"Ulm\"' | rung edit 249107395289088 --body -\n"
      "The new task is due now, as after a redrive. The parked one is discarded, says `replaced by` and is "
      "not "
      "redriven.\n"
      "Repeating an edit returns the same new task. Properties stay as they are; a JSON body is checked.",
      edit);
  add_text(c, "ID", "A retry-id or message-id, as listed by rung list").required();
  add_text(c, "--body", "The new body is in this file; - is stdin", "FILE");
  add_fields(c, kEdit);
  add_flag(c, "-y,--yes", "Do not ask for confirmation on a terminal");
}

}  // namespace rung::cli
