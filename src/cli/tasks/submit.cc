// rung submit: delayed messages from a shell. They go into the database; a sidecar, now or later, sends them.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "levels/duration.h"
#include "src/api/base/fields.h"
#include "src/api/messages/messages.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/filter.h"
#include "src/cli/shared/task_text.h"
#include "src/core/base/utf8.h"

namespace rung::cli {
namespace {

constexpr std::size_t kBatchBytes = 4U << 20U;
constexpr int kIdleMs = 100;  // after this time without input, pending lines are inserted

// What a value becomes in the request.
enum class Is { text, number, pairs, duration, time, body, file };

struct Field {
  const char* flag;
  const char* member;  // of the request
  Is is;
  const char* type;
  const char* help;
};
constexpr Field kFields[] = {
    {"--queue", "/queue", Is::text, "QUEUE", "The target queue"},
    {"--exchange", "/exchange", Is::text, "NAME", "Or the target exchange"},
    {"--routing-key", "/routing_key", Is::text, "KEY", "The routing key for --exchange"},
    {"--tag", "/tag", Is::text, "TAG",
     "The message property `type`; `tags` in the config can map it to a target"},
    {"--body", "/body", Is::body, "TEXT", "The body, as text"},
    {"--file", "/body_base64", Is::file, "FILE", "Read the body from this file; - is stdin"},
    {"--content-type", "/content_type", Is::text, "TYPE",
     "The content type (default with --body: text/plain)"},
    {"--header", "/headers", Is::pairs, "NAME=VALUE", "An application header; can be repeated"},
    {"--property", "/properties", Is::pairs, "NAME=VALUE",
     "priority, correlation_id, reply_to, app_id, timestamp, ..."},
    {"--delay", "/delay", Is::duration, "DURATION", "Due after this time"},
    {"--at", "/at", Is::time, "TIME", "Due at this time (UTC unless it has an offset)"},
    {"--ladder", "/ladder", Is::text, "NAME",
     "The ladder if its delivery fails (default: that of its tag or queue)"},
    {"--max-attempts", "/max_attempts", Is::number, "N", "Park the task after this many failed attempts"},
    {"--presumed-after", "/success/presumed_after", Is::duration, "DURATION",
     "Silence for this long means success"},
    {"--reported-within", "/success/reported_within", Is::duration, "DURATION",
     "Silence for this long means failure"},
    {"--message-id", "/message_id", Is::text, "ID",
     "The message-id; submitting it twice with the same content creates one task"},
};

void add_fields(CLI::App& c) {
  for (const Field& field : kFields) {
    CLI::Option* option = c.add_option(field.flag, field.help)->type_name(field.type);
    if (field.is == Is::pairs) option->take_all();
    if (field.is == Is::number) option->check(CLI::Range(1, 1'000'000));
  }
  c.get_option("--file")->excludes("--body");
}

// Adds the option's value to the request. Errors: an unreadable file, or a value of the wrong kind.
Result<void> add_value(const Field& field, const std::string& text, EpochMs now, Json& request) {
  const auto wrong = [&](const std::string& why) { return permanent(std::string(field.flag) + ": " + why); };
  if (field.is == Is::file || (field.is == Is::body && !is_utf8(text))) {
    const auto bytes = field.is == Is::file ? read_bytes(text) : Result<std::string>(text);
    if (!bytes) return tl::unexpected(bytes.error());
    request["body_base64"] = api::to_base64(*bytes);  // has no content type
    return {};
  }
  if (text.empty() && field.is != Is::body && field.is != Is::pairs) return {};
  if (!is_utf8(text)) return wrong("not UTF-8");
  Json& to = request[Json::json_pointer(field.member)];
  if (field.is == Is::pairs) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0) return wrong("'" + text + "' is not NAME=VALUE");
    const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
    const bool is_number = std::string_view(field.flag) == "--property" &&
                           (name == "priority" || name == "timestamp") && !value.empty() &&
                           value.find_first_not_of("0123456789") == std::string::npos && value.size() < 19;
    to[name] = is_number ? Json(std::atoll(value.c_str())) : Json(value);
  } else if (field.is == Is::time) {
    const auto at = parse_when(text, now, Direction::future);
    if (!at) return wrong(at.error());
    to = to_rfc3339(*at);
  } else if (field.is == Is::number) {
    to = std::strtoll(text.c_str(), nullptr, 0);  // as CLI::Range has read it
  } else {
    // JSON also accepts bare milliseconds, but on a command line 30 looks like seconds.
    const auto duration = field.is == Is::duration ? levels::parse_duration(text) : Ms{0};
    if (!duration) return wrong("'" + text + "': " + duration.error());
    to = text;
  }
  return {};
}

Result<Json> to_request(const CLI::App& c, EpochMs now) {
  Json json = Json::object();
  for (const Field& field : kFields) {
    for (const std::string& text : c.get_option(field.flag)->results()) {
      if (auto added = add_value(field, text, now, json); !added) return tl::unexpected(added.error());
    }
  }
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

int submit_one(const CLI::App& c) {
  Session session;
  const auto& queue = c.get_option("--queue")->results();
  if (const int code = open_service(session, queue.empty() ? "" : queue.front()); code != kSuccess)
    return code;
  auto request = to_request(c, session.now);
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

int submit_lines(const std::string& path) {
  Session session;
  if (const int code = open_service(session); code != kSuccess) return code;
  std::ios::sync_with_stdio(false);  // so that in_avail() works on stdin
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) return report_error(kUserError, "cannot read " + path);
  }
  SubmitTotals totals;
  const auto done = read_lines(path == "-" ? std::cin : file, *session.api, given().json, totals);
  if (!given().json)
    print(fmt::format("{} submitted, {} duplicates, {} refused\n", totals.created, totals.duplicates,
                      totals.wrong));
  if (!done) return report_error(done.error());
  return totals.wrong > 0 ? kUserError : kSuccess;
}

}  // namespace

void add_submit(CLI::App& app, int* exit) {
  auto lines = std::make_shared<std::string>();
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
  add_fields(c);
  c.add_option("--jsonl", *lines, "Submit many tasks: one JSON object per line; - is stdin")
      ->type_name("FILE");
  c.callback([lines, exit, &c] {
    for (const Field& field : kFields) {
      if (lines->empty() || c.count(field.flag) == 0) continue;
      *exit = report_error(kUserError,
                           std::string(field.flag) + " cannot be combined with --jsonl: set it in each line");
      return;
    }
    *exit = lines->empty() ? submit_one(c) : submit_lines(*lines);
  });
}

}  // namespace rung::cli
