// rung submit: delayed messages from a shell. They go into the database; a sidecar, now or later, sends them.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <charconv>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <tuple>
#include <utility>

#include "levels/duration.h"
#include "src/api/json/fields.h"
#include "src/api/messages/submission.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/task_text.h"
#include "src/core/base/utf8.h"

namespace rung::cli {
namespace {

constexpr std::size_t kBatchBytes = 4U << 20U;
constexpr int kIdleMs = 100;  // after this time without input, pending lines are inserted

struct SubmitOptions {
  std::string queue, exchange, routing_key, tag, ladder, message_id, content_type;
  std::string body, file;  // file "-" = stdin
  bool has_body = false;
  std::vector<std::string> headers, properties;  // "name=value"
  std::string delay, at, presumed_after, reported_within;
  int max_attempts = 0;
  std::string jsonl;
};

// Numeric properties; all others are strings.
bool is_number(const std::string& property) { return property == "priority" || property == "timestamp"; }

Result<void> add_pairs(const std::vector<std::string>& pairs, const char* flag, bool numbers, Json& to) {
  for (const std::string& pair : pairs) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      return permanent(std::string(flag) + ": '" + pair + "' is not NAME=VALUE");
    const std::string name = pair.substr(0, equals), value = pair.substr(equals + 1);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc() && end == value.data() + value.size();
    if (numbers && is_number(name) && whole) {
      to[name] = number;
    } else if (is_utf8(value)) {
      to[name] = value;
    } else {
      return permanent(std::string(flag) + ": the value of '" + clean_utf8(name, 60) + "' is not UTF-8");
    }
  }
  return {};
}

// Requires a unit: JSON also accepts bare milliseconds, but on a command line 30 looks like seconds.
Result<void> add_duration(const char* flag, const std::string& text, Json& to, const char* name) {
  if (text.empty()) return {};
  if (const auto parsed = levels::parse_duration(text); !parsed)
    return permanent(std::string(flag) + ": '" + clean_utf8(text, 60) + "': " + parsed.error());
  to[name] = text;
  return {};
}

Result<void> add_due(const SubmitOptions& flags, EpochMs now, Json& to) {
  if (auto delay = add_duration("--delay", flags.delay, to, "delay"); !delay) return delay;
  if (flags.at.empty()) return {};
  const auto at = parse_when(flags.at, now, Direction::future);
  if (!at) return permanent("--at: " + at.error());
  to["at"] = to_rfc3339(*at);
  return {};
}

Result<void> add_body(const SubmitOptions& flags, Json& to) {
  std::string bytes = flags.body;
  if (!flags.file.empty()) {
    auto read = read_bytes(flags.file);
    if (!read) return tl::unexpected(read.error());
    bytes = *std::move(read);
  }
  if (flags.has_body && is_utf8(bytes)) {
    to["body"] = bytes;
  } else if (flags.has_body || !flags.file.empty()) {
    to["body_base64"] = api::to_base64(bytes);  // a file has no content type
  }
  return {};
}

// Errors: an unreadable file, or a pair without "=".
Result<Json> to_request(const SubmitOptions& flags, EpochMs now) {
  Json json = Json::object();
  const std::pair<const char*, const std::string&> texts[] = {
      {"queue", flags.queue},   {"exchange", flags.exchange},     {"routing_key", flags.routing_key},
      {"tag", flags.tag},       {"message_id", flags.message_id}, {"content_type", flags.content_type},
      {"ladder", flags.ladder},
  };
  for (const auto& [name, value] : texts) {
    if (value.empty()) continue;
    if (!is_utf8(value)) return permanent(std::string(name) + " is not UTF-8");
    json[name] = value;
  }
  if (auto due = add_due(flags, now, json); !due) return tl::unexpected(due.error());
  if (auto body = add_body(flags, json); !body) return tl::unexpected(body.error());
  if (!flags.headers.empty()) {
    json["headers"] = Json::object();
    if (auto done = add_pairs(flags.headers, "--header", false, json["headers"]); !done)
      return tl::unexpected(done.error());
  }
  if (!flags.properties.empty()) {
    json["properties"] = Json::object();
    if (auto done = add_pairs(flags.properties, "--property", true, json["properties"]); !done)
      return tl::unexpected(done.error());
  }
  Json success = Json::object();
  for (const auto& [flag, text, name] :
       {std::tuple{"--presumed-after", &flags.presumed_after, "presumed_after"},
        std::tuple{"--reported-within", &flags.reported_within, "reported_within"}}) {
    if (auto added = add_duration(flag, *text, success, name); !added) return tl::unexpected(added.error());
  }
  if (!success.empty()) json["success"] = std::move(success);
  if (flags.max_attempts > 0) json["max_attempts"] = flags.max_attempts;
  return json;
}

// One line of --jsonl: a task, or why it is none.
struct Line {
  std::size_t number = 0;  // from 1
  std::optional<Json> task;
  std::string wrong;
  std::size_t bytes = 0;
};

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
  const std::string wrong = error.wrong(true, place);
  return {"refused", wrong.empty() ? error.text("detail") : wrong, "", status == 400};
}

// A result for each, in order; those that are wrong do not keep the others from being written. Error: why it
// stopped. What is too much for one request is sent in halves.
Result<void> submit(Api& api, std::span<const Json> tasks, std::vector<Submitted>& results) {
  constexpr int kTooLarge = 413;
  Json all = Json::array();
  for (const Json& task : tasks) all.push_back(task);
  const auto answer = api.call("POST", "/v1/tasks", &all);
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

// Lines that are submitted together.
class Batch {
 public:
  static constexpr std::size_t kMostSubmitted = 500;

  void add(Line line) {
    bytes_ += line.bytes;
    lines_.push_back(std::move(line));
  }
  bool full() const { return lines_.size() >= kMostSubmitted || bytes_ >= kBatchBytes; }
  // Else the others are submitted first: a large task has a request of its own.
  bool has_room(const Line& line) const { return lines_.empty() || bytes_ + line.bytes <= kBatchBytes; }

  // The lines with their results, in order; fewer after an error.
  Result<void> flush(Api& api, std::vector<std::pair<std::size_t, Submitted>>& done) {
    const std::vector<Line> lines = std::exchange(lines_, {});
    bytes_ = 0;
    std::vector<Json> tasks;
    for (const Line& line : lines) {
      if (line.task) tasks.push_back(*line.task);
    }
    std::vector<Submitted> results;
    const auto all = tasks.empty() ? Result<void>() : submit(api, tasks, results);
    auto next = results.begin();
    for (const Line& line : lines) {
      if (line.task && next == results.end()) break;
      done.emplace_back(line.number, line.task ? std::move(*next++) : Submitted{"refused", line.wrong});
    }
    return all;
  }

 private:
  std::vector<Line> lines_;
  std::size_t bytes_ = 0;
};

// -------------------------------------------------------------------------------------------- one, by flags

int submit_one(const SubmitOptions& o) {
  Session session;
  if (const int code = open_service(session, o.queue); code != kSuccess) return code;
  auto request = to_request(o, session.now);
  if (!request) return report_error(request.error());
  std::vector<Submitted> results;
  if (const auto done = submit(*session.api, {&*request, 1}, results); !done)
    return report_error(done.error());
  const Submitted& result = results.front();
  if (result.wrong) return report_error(kUserError, result.reason);
  const auto task = result.id.empty() ? Result<Json>(Json()) : session.api->get("/v1/tasks/" + result.id);
  if (!task) return report_error(task.error());
  if (given().json) {
    print_json({{"retry_id", api::text_or_null(result.id)},
                {"result", result.result},
                {"reason", api::text_or_null(result.reason)},
                {"task", *task}});
    return result.good() ? kSuccess : kUserError;
  }
  if (!result.good()) return report_error(kUserError, result.reason);
  if (auto now = session.api->now()) session.now = *now;
  print(changed_line(session, result.id, *task, result.reason));
  return kSuccess;
}

// -------------------------------------------------------------------------------------- many, by JSON lines

struct SubmitTotals {
  std::size_t created = 0, duplicates = 0, wrong = 0;
};

void tell_line(const Submitted& result, std::size_t line, bool json, SubmitTotals& totals) {
  totals.created += result.result == "created" ? 1 : 0;
  totals.duplicates += result.result == "duplicate" ? 1 : 0;
  totals.wrong += result.good() ? 0 : 1;
  if (json) {
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

Result<void> read_lines(std::istream& in, Api& api, bool json, SubmitTotals& totals) {
  Batch batch;
  const auto flush = [&]() -> Result<void> {
    std::vector<std::pair<std::size_t, Submitted>> results;
    const auto done = batch.flush(api, results);
    for (const auto& [line, result] : results) tell_line(result, line, json, totals);
    return done;
  };
  std::string text;
  for (std::size_t line = 1; std::getline(in, text); ++line) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto request = api::parse_json(text, static_cast<std::ptrdiff_t>(line));
    Line next = request ? Line{line, *std::move(request), "", text.size()}
                        : Line{line, {}, request.error().message, 0};
    if (!batch.has_room(next)) {
      if (auto done = flush(); !done) return done;
    }
    batch.add(std::move(next));
    if (!batch.full() && !input_is_idle(in)) continue;
    if (auto done = flush(); !done) return done;
  }
  auto done = flush();
  if (done && in.bad()) return permanent("the input cannot be read any further");
  return done;
}

int submit_lines(const SubmitOptions& o) {
  Session session;
  if (const int code = open_service(session); code != kSuccess) return code;
  std::ios::sync_with_stdio(false);  // so that in_avail() works on stdin
  std::ifstream file;
  if (o.jsonl != "-") {
    file.open(o.jsonl, std::ios::binary);
    if (!file) return report_error(kUserError, "cannot read " + o.jsonl);
  }
  SubmitTotals totals;
  const auto done = read_lines(o.jsonl == "-" ? std::cin : file, *session.api, given().json, totals);
  if (!given().json)
    print(fmt::format("{} submitted, {} duplicates, {} refused\n", totals.created, totals.duplicates,
                      totals.wrong));
  if (!done) return report_error(done.error());
  return totals.wrong > 0 ? kUserError : kSuccess;
}

void add_flags(CLI::App& c, SubmitOptions& f) {
  c.add_option("--queue", f.queue, "The target queue")->type_name("QUEUE");
  c.add_option("--exchange", f.exchange, "Or the target exchange")->type_name("NAME");
  c.add_option("--routing-key", f.routing_key, "The routing key for --exchange")->type_name("KEY");
  c.add_option("--tag", f.tag, "The message property `type`; `tags` in the config can map it to a target")
      ->type_name("TAG");
  CLI::Option* body = c.add_option("--body", f.body, "The body, as text")->type_name("TEXT");
  c.add_option("--file", f.file, "Read the body from this file; - is stdin")
      ->type_name("FILE")
      ->excludes(body);
  c.add_option("--content-type", f.content_type, "The content type (default with --body: text/plain)")
      ->type_name("TYPE");
  c.add_option("--header", f.headers, "An application header; can be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  c.add_option("--property", f.properties, "priority, correlation_id, reply_to, app_id, timestamp, ...")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  c.add_option("--delay", f.delay, "Due after this time")->type_name("DURATION");
  c.add_option("--at", f.at, "Due at this time (UTC unless it has an offset)")->type_name("TIME");
  c.add_option("--ladder", f.ladder, "The ladder if its delivery fails (default: that of its tag or queue)")
      ->type_name("NAME");
  c.add_option("--max-attempts", f.max_attempts, "Park the task after this many failed attempts")
      ->check(CLI::Range(1, 1'000'000));
  c.add_option("--presumed-after", f.presumed_after, "Silence for this long means success")
      ->type_name("DURATION");
  c.add_option("--reported-within", f.reported_within, "Silence for this long means failure")
      ->type_name("DURATION");
  c.add_option("--message-id", f.message_id,
               "The message-id; submitting it twice with the same content creates one task")
      ->type_name("ID");
}

}  // namespace

void add_submit(CLI::App& app, int* exit) {
  auto o = std::make_shared<SubmitOptions>();
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
      "code 1.");
  add_flags(c, *o);
  c.add_option("--jsonl", o->jsonl, "Submit many tasks: one JSON object per line; - is stdin")
      ->type_name("FILE");
  c.callback([o, exit, &c] {
    o->has_body = c.count("--body") > 0;
    const bool one = o->jsonl.empty();
    for (const CLI::Option* option : c.get_options()) {
      const std::string name = option->get_name();
      if (one || option->count() == 0 || name == "--jsonl") continue;
      *exit = report_error(kUserError, name + " cannot be combined with --jsonl: set it in each line");
      return;
    }
    *exit = one ? submit_one(*o) : submit_lines(*o);
  });
}

}  // namespace rung::cli
