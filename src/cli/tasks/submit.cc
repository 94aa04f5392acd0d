// rung submit: delayed messages from a shell. They go into the database; a sidecar, now or later, sends them.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "plugin/brokers.h"
#include "src/api/submission.h"
#include "src/api/views.h"
#include "src/cli/shared/command.h"
#include "src/cli/shared/commands.h"
#include "src/cli/shared/retry.h"
#include "src/cli/shared/task_text.h"
#include "src/cli/shared/text.h"
#include "src/cli/tasks/submit_request.h"
#include "src/core/machine/submission.h"

namespace rung::cli {
namespace {

constexpr std::size_t kBatchTasks = 500;
constexpr std::size_t kBatchBytes = 4U << 20U;
constexpr int kIdleMs = 100;  // after this time without input, pending lines are inserted

const Fence kNoLease{0, {}, true};  // the shard's owner finds the row by its sweep

struct SubmitOptions {
  Common common;
  SubmitFlags flags;
  std::string jsonl;
};

// The result of one request. Without an id nothing was written, and `reason` says why.
struct SubmitResult {
  std::size_t line = 0;  // of --jsonl, from 1; 0 = a request by flags
  std::string result;    // created, duplicate, conflict, refused
  std::string reason;
  std::optional<TaskId> id;
  std::optional<TaskRow> row;  // only for a request by flags
  bool good() const { return result == "created" || result == "duplicate"; }
};

// Requests that will be inserted in one transaction.
struct Batch {
  std::vector<api::ReadTask> requests;
  std::vector<std::size_t> lines;
  std::size_t bytes = 0;
};

std::string errors_text(const api::FieldErrors& errors) {
  std::string out;
  for (const auto& error : errors) out += (out.empty() ? "" : "; ") + error.field + ": " + error.detail;
  return out;
}

class Submitter {
 public:
  explicit Submitter(Session& session)
      : session_(session),
        reserved_(reserved_headers(session.config.broker)),
        user_(cli_user()),
        random_(std::random_device{}()),
        ids_(static_cast<int>(random_() % 1024)) {}

  // Adds it to the batch, or returns the error.
  std::optional<std::string> add(const Json& request, std::size_t line) {
    api::FieldErrors errors;
    api::ReadTask read = api::read_task(request, "", *session_.config.rules, reserved_, user_, errors);
    if (!errors.empty()) return errors_text(errors);
    batch_.bytes += read.submission.task.message->body.size();
    batch_.requests.push_back(std::move(read));
    batch_.lines.push_back(line);
    return std::nullopt;
  }

  bool full() const { return batch_.requests.size() >= kBatchTasks || batch_.bytes >= kBatchBytes; }

  // Inserts the batch in one transaction; results are in the order of add().
  Result<std::vector<SubmitResult>> flush() {
    const Batch batch = std::exchange(batch_, {});
    std::vector<SubmitResult> results;
    if (batch.requests.empty()) return results;
    auto now = retry_transient([&] { return session_.store->now(); });
    if (!now) return tl::unexpected(now.error());
    session_.now = *now;
    // One shard per batch: the rows are adjacent in the index. The shard's owner finds them by its sweep.
    const int shard = static_cast<int>(random_() % kShards);
    std::vector<NewTask> tasks;
    for (const api::ReadTask& request : batch.requests) tasks.push_back(make_task(request.submission, shard));
    auto inserted = retry_transient([&] { return session_.store->insert(tasks, kNoLease); });
    if (!inserted) return tl::unexpected(inserted.error());
    for (std::size_t i = 0; i < inserted->size(); ++i) {
      auto result = to_result((*inserted)[i], std::move(tasks[i]), batch.requests[i].content);
      if (!result) return tl::unexpected(result.error());
      result->line = batch.lines[i];
      results.push_back(*std::move(result));
    }
    return results;
  }

 private:
  NewTask make_task(const Submission& s, int shard) {
    NewTask made = s.task;
    made.task.id = ids_.next(session_.now);
    made.task.shard = shard;
    made.task.created_at = session_.now;
    made.task.rule_headers = rule_headers_of(*made.message, *session_.config.rules);
    begin_delay(made.task, s.directives, *session_.config.rules, session_.now,
                s.at.value_or(session_.now + s.delay));
    return made;
  }

  Result<SubmitResult> to_result(Inserted inserted, NewTask task, const std::string& content) {
    // Ids are not unique here, because this process has no node number: the store reports a duplicate id.
    while (inserted.how == Inserted::How::id_taken) {
      task.task.id = ids_.next(session_.now);
      auto once_more = retry_transient([&] { return session_.store->insert({&task, 1}, kNoLease); });
      if (!once_more) return tl::unexpected(once_more.error());
      inserted = once_more->front();
    }
    if (inserted.how == Inserted::How::not_held)
      return permanent("internal error: the store rejected a task without a lease");
    SubmitResult result;
    if (inserted.how == Inserted::How::too_large) {
      result.result = "refused";
      result.reason = "the body is too large for the database (max_allowed_packet)";
      return result;
    }
    result.id = inserted.id;
    result.result = "created";
    if (inserted.how == Inserted::How::inserted) return result;
    auto origin = session_.store->origin(inserted.id);
    if (!origin) return tl::unexpected(origin.error());
    const bool same = content_of_origin(*origin) == content;
    const std::string name = "message-id " + task.task.message_id;
    result.result = same ? "duplicate" : "conflict";
    result.reason = same ? name + " was already submitted"
                         : name + " belongs to task " + inserted.id.str() + ", which has different content";
    return result;
  }

  Session& session_;
  const ReservedHeaders reserved_;
  const std::string user_;
  std::mt19937_64 random_;
  IdSource ids_;
  Batch batch_;
};

Json result_json(const SubmitResult& result) {
  Json json = Json::object();
  if (result.line > 0) json["line"] = result.line;
  json["retry_id"] = result.id ? Json(result.id->str()) : Json();
  json["result"] = result.result;
  json["reason"] = result.reason.empty() ? Json() : Json(result.reason);
  if (result.line == 0) json["task"] = result.row ? api::to_json(*result.row) : Json();
  return json;
}

// -------------------------------------------------------------------------------------------- one, by flags

int submit_one(const SubmitOptions& o) {
  Session session;
  if (const int code = open_session(o.common, session, o.flags.queue); code != kSuccess) return code;
  auto request = to_request(o.flags, session.now);
  if (!request) return report_error(request.error());
  Submitter submitter(session);
  if (const auto wrong = submitter.add(*request, 0)) return report_error(kUserError, *wrong);
  auto results = submitter.flush();
  if (!results) return report_error(results.error());
  SubmitResult& result = results->front();
  if (result.id) {
    auto row = session.store->find(*result.id);
    if (!row) return report_error(row.error());
    result.row = *std::move(row);
  }
  if (o.common.json) print(dump(result_json(result)) + "\n");
  if (!result.good()) return o.common.json ? kUserError : report_error(kUserError, result.reason);
  if (!o.common.json) {
    const std::string state_text =
        result.row ? what_next(*result.row, *session.config.rules, session.now) : "gone";
    print(
        fmt::format("{}  {}{}\n", result.id->str(), one_line(state_text),
                    result.result == "duplicate" ? " (nothing to do: " + one_line(result.reason) + ")" : ""));
  }
  return kSuccess;
}

// -------------------------------------------------------------------------------------- many, by JSON lines

struct SubmitTotals {
  std::size_t created = 0, duplicates = 0, wrong = 0;
};

void print_result(const SubmitResult& result, bool json, SubmitTotals& totals) {
  totals.created += result.result == "created" ? 1 : 0;
  totals.duplicates += result.result == "duplicate" ? 1 : 0;
  totals.wrong += result.good() ? 0 : 1;
  if (json) {
    print(dump(result_json(result), false) + "\n");
  } else if (!result.good()) {
    report_error(kUserError, fmt::format("line {}: {}", result.line, result.reason));
  }
}

// Whether no more input has arrived for kIdleMs: an interactive user, or a program with pauses.
bool input_is_idle(std::istream& in) {
  if (&in != &std::cin || in.rdbuf()->in_avail() > 0) return false;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, kIdleMs) == 0;
}

Result<void> read_lines(std::istream& in, Submitter& submitter, bool json, SubmitTotals& totals) {
  const auto flush = [&]() -> Result<void> {
    auto results = submitter.flush();
    if (!results) return tl::unexpected(results.error());
    for (const SubmitResult& result : *results) print_result(result, json, totals);
    return {};
  };
  std::string text;
  for (std::size_t line = 1; std::getline(in, text); ++line) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto request = api::parse_json(text);
    std::optional<std::string> wrong = request ? submitter.add(*request, line) : request.error().message;
    if (wrong) print_result({line, "refused", *std::move(wrong), {}, {}}, json, totals);
    if (!submitter.full() && !input_is_idle(in)) continue;
    if (auto done = flush(); !done) return done;
  }
  return flush();
}

int submit_lines(const SubmitOptions& o) {
  Session session;
  if (const int code = open_session(o.common, session); code != kSuccess) return code;
  std::ios::sync_with_stdio(false);  // so that in_avail() works on stdin
  std::ifstream file;
  if (o.jsonl != "-") {
    file.open(o.jsonl, std::ios::binary);
    if (!file) return report_error(kUserError, "cannot read " + o.jsonl);
  }
  Submitter submitter(session);
  SubmitTotals totals;
  const auto done = read_lines(o.jsonl == "-" ? std::cin : file, submitter, o.common.json, totals);
  if (!o.common.json)
    print(fmt::format("{} submitted, {} duplicates, {} refused\n", totals.created, totals.duplicates,
                      totals.wrong));
  if (!done) return report_error(done.error());
  return totals.wrong > 0 ? kUserError : kSuccess;
}

void add_flags(CLI::App& c, SubmitOptions& o) {
  SubmitFlags& f = o.flags;
  c.add_option("--queue", f.queue, "The target queue")->type_name("NAME");
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
      "code 1.",
      o->common);
  add_flags(c, *o);
  c.add_option("--jsonl", o->jsonl, "Submit many tasks: one JSON object per line; - is stdin")
      ->type_name("FILE");
  add_utc(c);
  c.callback([o, exit, &c] {
    o->flags.has_body = c.count("--body") > 0;
    const bool one = o->jsonl.empty();
    for (const CLI::Option* option : c.get_options()) {
      const std::string name = option->get_name();
      if (one || option->count() == 0 || name == "--jsonl" || name == "--json" || name == "--config" ||
          name == "--group")
        continue;
      *exit = report_error(kUserError, name + " cannot be combined with --jsonl: set it in each line");
      return;
    }
    *exit = one ? submit_one(*o) : submit_lines(*o);
  });
}

}  // namespace rung::cli
