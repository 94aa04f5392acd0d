// rung submit: new tasks, from options or lines of JSON. rung edit: a parked task's message, changed and
// sent.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/api/base/message.h"
#include "src/api/messages/messages.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/text.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/machine.h"

namespace rung::cli {
namespace {

constexpr std::size_t kBatchBytes = 4U << 20U, kMostSubmitted = 500;  // of a request
constexpr int kIdleMs = 100;  // after this time without input, pending lines are inserted

constexpr Field kSubmit[] = {
    {"queue", Is::text, "QUEUE", "The target queue"},
    {"exchange", Is::text, "NAME", "Or the target exchange"},
    {"routing_key", Is::text, "KEY", "The routing key for --exchange"},
    {"tag", Is::text, "TAG", "The message property `type`; `tags` in the config can map it to a target"},
    {"content_type", Is::text, "TYPE", "The content type (default with --body: text/plain)"},
    {"headers", Is::pairs, "NAME=VALUE", "An application header; can be repeated", "--header"},
    {"properties", Is::pairs, "NAME=VALUE", "priority, correlation_id, reply_to, app_id, timestamp, ...",
     "--property"},
    {"delay", Is::duration, "DURATION", "Due after this time"},
    {"at", Is::future, "TIME", "Due at this time (UTC unless it has an offset)"},
    {"ladder", Is::text, "NAME", "The ladder if its delivery fails (default: that of its tag or queue)"},
    {"max_attempts", Is::number, "N", "Park the task after this many failed attempts", "", 1, 1e6},
    {"success/presumed_after", Is::duration, "DURATION", "Silence for this long means success",
     "--presumed-after"},
    {"success/reported_within", Is::duration, "DURATION", "Silence for this long means failure",
     "--reported-within"},
    {"message_id", Is::text, "ID",
     "The message-id; submitting it twice with the same content creates one task"},
};

Json to_request(const CLI::App& c, EpochMs now) {
  Json json = Json::object();
  read_fields(c, kSubmit, now, json);
  const std::string body = value_of(c, "--body"), file = value_of(c, "--file");
  const bool as_text = is_utf8(body);
  if (c.count("--body") > 0)  // in base64 it has no content type
    json[as_text ? "body" : "body_base64"] = as_text ? body : api::to_base64(body);
  if (!file.empty()) json["body_base64"] = api::to_base64(read_bytes(file));
  for (const char* name : {"priority", "timestamp"}) {
    const std::string text = text_of(part_of(json, "properties"), name);
    if (!text.empty() && text.size() < 19 && text.find_first_not_of("0123456789") == std::string::npos)
      json["properties"][name] = std::atoll(text.c_str());
  }
  return json;
}

// The result of one submitted task.
struct Submitted {
  std::string result;       // created, duplicate, conflict, refused
  std::string reason = {};  // unless created
  std::string id = {};      // of the task, that of a conflict too; "" = nothing was written
  bool wrong = false;       // refused: the request is no task
  bool good() const { return result == "created" || result == "duplicate"; }
};

// `place`: the prefix of its fields in errors.
Submitted result_of(const Json& json, const Json& task, const std::string& place) {
  const std::int64_t status = number_of(json, "status");
  const std::string message_id = text_of(task, "message_id");
  if (status == 201) return {"created", "", text_of(part_of(json, "task"), "retry_id")};
  if (status == 200)
    return {"duplicate", "message-id " + message_id + " was already submitted",
            text_of(part_of(json, "task"), "retry_id")};
  const Answer error{static_cast<int>(status), part_of(json, "error")};
  if (error.text("code") == "id_reused") {
    const std::string id = error.text("retry_id");
    return {"conflict",
            "message-id " + message_id + " belongs to task " + id + ", which has different content", id};
  }
  const auto name = [&](std::string_view field) {
    if (field.starts_with(place + ".")) field.remove_prefix(place.size() + 1);
    return std::string(field == place ? "body" : field);
  };
  return {"refused", error_of(error, name).message, "", status == 400};
}

// A result for each, in order; those that are wrong do not keep the others from being written. Error: why it
// stopped. What is too much for one request is sent in halves.
Result<void> submit(Api& api, std::span<const Json> tasks, std::vector<Submitted>& results) {
  constexpr int kTooLarge = 413;
  Json all = Json::array();
  for (const Json& task : tasks) all.push_back(task);
  const auto answer = api.call("POST", "/v1/tasks", &all, false);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->status == kTooLarge && tasks.size() > 1) {
    const std::size_t half = tasks.size() / 2;
    if (auto done = submit(api, tasks.first(half), results); !done) return done;
    return submit(api, tasks.subspan(half), results);
  }
  if (answer->status == kTooLarge) {
    results.push_back({"refused", answer->text("detail")});
    return {};
  }
  if (!answer->good()) return tl::unexpected(error_of(*answer));
  const Json& list = part_of(answer->json, "results");
  if (!list.is_array() || list.size() != tasks.size())
    return tl::unexpected(api.strange("not as Rung writes it: its results are not those of the tasks"));
  for (std::size_t i = 0; i < list.size(); ++i)
    results.push_back(result_of(list[i], tasks[i], "tasks[" + std::to_string(i) + "]"));
  return {};
}

// -------------------------------------------------------------------------------------------- one, by flags

int submit_one(const CLI::App& c) {
  Session session(value_of(c, "--queue"));
  const Json request = to_request(c, session.now);
  std::vector<Submitted> results;
  need(submit(*session.api, {&request, 1}, results));
  const Submitted& result = results.front();
  if (result.wrong) throw Failed(kUserError, result.reason);
  const Json task = result.id.empty() ? Json() : need(session.api->get("/v1/tasks/" + result.id));
  const Json told = result_json(result.id, result.result, result.reason, task);
  if (auto now = session.api->now()) session.now = *now;
  if (result.good()) return tell_result(session, told);
  if (!given().json) throw Failed(kUserError, result.reason);
  print_json(told);
  return kUserError;
}

// -------------------------------------------------------------------------------------- many, by JSON lines

struct SubmitTotals {
  std::size_t created = 0, duplicates = 0, wrong = 0;
};

void tell_line(const Submitted& result, std::size_t line, SubmitTotals& totals) {
  totals.created += result.result == "created" ? 1 : 0;
  totals.duplicates += result.result == "duplicate" ? 1 : 0;
  totals.wrong += result.good() ? 0 : 1;
  if (given().json) {
    print(dump({{"line", line},
                {"retry_id", api::text_or_null(result.id)},
                {"result", result.result},
                {"reason", api::text_or_null(result.reason)}},
               false) +
          "\n");
  } else if (!result.good()) {
    report_error(kUserError, fmt::format("line {}: {}", line, result.reason));
  }
}

// Whether no more input has arrived for kIdleMs: an interactive user, or a program with pauses.
bool input_is_idle(std::istream& in) {
  if (&in != &std::cin || in.rdbuf()->in_avail() > 0) return false;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, kIdleMs) == 0;
}

Result<void> read_lines(std::istream& in, Api& api, SubmitTotals& totals) {
  std::vector<Json> tasks;           // that are submitted together,
  std::vector<std::size_t> numbers;  // and their lines
  std::size_t bytes = 0;
  const auto flush = [&]() -> Result<void> {
    if (tasks.empty()) return {};
    std::vector<Submitted> results;
    const auto done = submit(api, tasks, results);
    for (std::size_t i = 0; i < results.size(); ++i) tell_line(results[i], numbers[i], totals);
    tasks.clear();
    numbers.clear();
    bytes = 0;
    return done;
  };
  std::string text;
  for (std::size_t line = 1; std::getline(in, text); ++line) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto request = api::parse_json(text, static_cast<std::ptrdiff_t>(line));
    // A large task has a request of its own; the results are told in order.
    if (!request || bytes + text.size() > kBatchBytes) {
      if (auto done = flush(); !done) return done;
    }
    if (!request) {
      tell_line({"refused", request.error().message}, line, totals);
      continue;
    }
    tasks.push_back(*std::move(request));
    numbers.push_back(line);
    bytes += text.size();
    if (tasks.size() < kMostSubmitted && !input_is_idle(in)) continue;
    if (auto done = flush(); !done) return done;
  }
  auto done = flush();
  if (done && in.bad()) return permanent("the input cannot be read any further");
  return done;
}

int submit_lines(const std::string& path) {
  Session session;
  std::ios::sync_with_stdio(false);  // so that in_avail() works on stdin
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) throw Failed(kUserError, "cannot read " + path);
  }
  SubmitTotals totals;
  const auto done = read_lines(path == "-" ? std::cin : file, *session.api, totals);
  if (!given().json)
    print(fmt::format("{} submitted, {} duplicates, {} refused\n", totals.created, totals.duplicates,
                      totals.wrong));
  need(done);
  return totals.wrong > 0 ? kUserError : kSuccess;
}

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

void add_submit(CLI::App& app) {
  CLI::App& c = add_command(
      app, "submit", "Submits a delayed message: stored in the database, sent by a sidecar",
      "Examples:\n"
      "  rung submit --queue orders.close --delay 30m --message-id close-17 --body '{\"order\":17}'\n"
      "  rung submit --exchange shop --routing-key order.close --at 2026-11-21T17:05:00Z --file order.bin\n"
      "  rung submit --tag coupon.reminder --delay 2d --body ann\n"
      "  generate | rung submit --jsonl - --json\n"
      "Each line of --jsonl is a task in the format of POST /v1/tasks: {\"queue\": \"orders\", \"delay\": "
      "\"30m\", \"body\": {}}.\n"
      "Repeating a --message-id with the same content returns the same task; with different content: exit "
      "code 1.",
      [](const CLI::App& command) {
        const std::string lines = value_of(command, "--jsonl"), other = given_of(command, kSubmit);
        if (lines.empty()) return submit_one(command);
        if (!other.empty())
          throw Failed(kUserError, other + " cannot be combined with --jsonl: set it in each line");
        return submit_lines(lines);
      });
  add_fields(c, kSubmit);
  CLI::Option& body = add_text(c, "--body", "The body, as text");
  add_text(c, "--file", "Read the body from this file; - is stdin", "FILE").excludes(&body);
  add_text(c, "--jsonl", "Submit many tasks: one JSON object per line; - is stdin", "FILE")
      .excludes(&body)
      ->excludes("--file");

  CLI::App& anew = add_command(
      app, "edit", "Sends a parked task again with another body or other headers, as a new task",
      "Examples:\n"
      "  rung edit 249107395289088 --body fixed.json --reason \"city was missing\"\n"
      "  rung edit 249107395289088 --set-header tenant=acme --unset-header x-debug --yes\n"
      "  rung show 249107395289088 --raw | jq '.city = \"Ulm\"' | rung edit 249107395289088 --body -\n"
      "The new task is due now, as after a redrive. The parked one is discarded, says `replaced by`\n"
      "and is not redriven. Repeating an edit returns the same new task. Properties stay as they are;\n"
      "a JSON body is checked.",
      edit);
  add_text(anew, "ID", "A retry-id or message-id, as listed by rung list").required();
  add_text(anew, "--body", "The new body is in this file; - is stdin", "FILE");
  add_fields(anew, kEdit);
  add_flag(anew, "-y,--yes", "Do not ask for confirmation on a terminal");
}

}  // namespace rung::cli
