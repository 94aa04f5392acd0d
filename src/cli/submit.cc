// rung submit: messages that only have to wait, from a shell. They go into the database; a sidecar that runs,
// or one that is started later, sends them.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fstream>
#include <iostream>
#include <random>
#include <utility>

#include "plugin/brokers.h"
#include "src/api/submission.h"
#include "src/api/views.h"
#include "src/cli/again.h"
#include "src/cli/command.h"
#include "src/cli/commands.h"
#include "src/cli/story.h"
#include "src/cli/submit_request.h"
#include "src/cli/text.h"
#include "src/core/submission.h"

namespace rung::cli {
namespace {

constexpr std::size_t kBatchTasks = 500;
constexpr std::size_t kBatchBytes = 4U << 20U;
constexpr int kPauseMs = 100;  // of a pipe: what has come so far goes into the database

const Fence kByHand{0, {}, true};  // no lease: the shard's owner finds the row

struct SubmitOptions {
  Common common;
  SubmitFlags flags;
  std::string jsonl;
};

// What became of one request. No task: nothing was written, and `reason` says why.
struct Answer {
  std::size_t line = 0;  // of --jsonl, from 1; 0 = by flags
  std::string result;    // created, duplicate, conflict, refused
  std::string reason;
  std::optional<TaskId> id;
  std::optional<TaskRow> row;  // by flags alone
  bool good() const { return result == "created" || result == "duplicate"; }
};

// Requests that have been read, on their way to the database together.
struct Batch {
  std::vector<api::ReadTask> requests;
  std::vector<std::size_t> lines;
  std::size_t bytes = 0;
};

std::string said(const api::FieldErrors& errors) {
  std::string out;
  for (const auto& error : errors) out += (out.empty() ? "" : "; ") + error.field + ": " + error.detail;
  return out;
}

class Submitter {
 public:
  explicit Submitter(Session& session)
      : session_(session),
        reserved_(reserved_headers(session.config.broker)),
        who_(by_whom()),
        dice_(std::random_device{}()),
        ids_(static_cast<int>(dice_() % 1024)) {}

  // Into the batch, or what is wrong with it.
  std::optional<std::string> add(const Json& request, std::size_t line) {
    api::FieldErrors errors;
    api::ReadTask read = api::read_task(request, "", *session_.config.rules, reserved_, who_, errors);
    if (!errors.empty()) return said(errors);
    batch_.bytes += read.submission.task.message->body.size();
    batch_.requests.push_back(std::move(read));
    batch_.lines.push_back(line);
    return std::nullopt;
  }

  bool full() const { return batch_.requests.size() >= kBatchTasks || batch_.bytes >= kBatchBytes; }

  // One transaction; its answers in the order of add().
  Result<std::vector<Answer>> flush() {
    const Batch batch = std::exchange(batch_, {});
    std::vector<Answer> answers;
    if (batch.requests.empty()) return answers;
    auto now = again([&] { return session_.store->now(); });
    if (!now) return tl::unexpected(now.error());
    session_.now = *now;
    // One shard a batch: neighbouring rows in the index. Whoever owns it finds them by its sweep.
    const int shard = static_cast<int>(dice_() % kShards);
    std::vector<NewTask> tasks;
    for (const api::ReadTask& request : batch.requests) tasks.push_back(make_task(request.submission, shard));
    auto inserted = again([&] { return session_.store->insert(tasks, kByHand); });
    if (!inserted) return tl::unexpected(inserted.error());
    for (std::size_t i = 0; i < inserted->size(); ++i) {
      auto answer = judge((*inserted)[i], std::move(tasks[i]), batch.requests[i].content);
      if (!answer) return tl::unexpected(answer.error());
      answer->line = batch.lines[i];
      answers.push_back(*std::move(answer));
    }
    return answers;
  }

 private:
  NewTask make_task(const Submission& s, int shard) {
    NewTask made = s.task;
    made.task.id = ids_.next(session_.now);
    made.task.shard = shard;
    made.task.created_at = session_.now;
    begin_delay(made.task, s.directives, *session_.config.rules, session_.now,
                s.at.value_or(session_.now + s.delay));
    return made;
  }

  Result<Answer> judge(Inserted inserted, NewTask task, const std::string& content) {
    // Ids are made without a number of our own here: the store tells one that somebody has already.
    while (inserted.how == Inserted::How::id_taken) {
      task.task.id = ids_.next(session_.now);
      auto once_more = again([&] { return session_.store->insert({&task, 1}, kByHand); });
      if (!once_more) return tl::unexpected(once_more.error());
      inserted = once_more->front();
    }
    if (inserted.how == Inserted::How::not_held) return permanent("the store took no task by hand");
    Answer answer;
    if (inserted.how == Inserted::How::too_large) {
      answer.result = "refused";
      answer.reason = "the database does not take a body of that size (max_allowed_packet)";
      return answer;
    }
    answer.id = inserted.id;
    answer.result = "created";
    if (inserted.how == Inserted::How::inserted) return answer;
    auto origin = session_.store->origin(inserted.id);
    if (!origin) return tl::unexpected(origin.error());
    const bool same = content_of_origin(*origin) == content;
    const std::string name = "message-id " + task.task.message_id;
    answer.result = same ? "duplicate" : "conflict";
    answer.reason = same ? name + " was submitted already"
                         : name + " belongs to task " + inserted.id.str() + ", which has another content";
    return answer;
  }

  Session& session_;
  const ReservedHeaders reserved_;
  const std::string who_;
  std::mt19937_64 dice_;
  IdSource ids_;
  Batch batch_;
};

Json answer_json(const Answer& answer) {
  Json json = Json::object();
  if (answer.line > 0) json["line"] = answer.line;
  json["retry_id"] = answer.id ? Json(answer.id->str()) : Json();
  json["result"] = answer.result;
  json["reason"] = answer.reason.empty() ? Json() : Json(answer.reason);
  if (answer.line == 0) json["task"] = answer.row ? api::to_json(*answer.row) : Json();
  return json;
}

// ------------------------------------------------------------------------------------------------ one, by
// flags

int submit_one(const SubmitOptions& o) {
  Session session;
  if (const int code = open_session(o.common, session, o.flags.queue); code != kDone) return code;
  auto request = to_request(o.flags, session.now);
  if (!request) return complain(request.error());
  Submitter submitter(session);
  if (const auto wrong = submitter.add(*request, 0)) return complain(kMistake, *wrong);
  auto answers = submitter.flush();
  if (!answers) return complain(answers.error());
  Answer& answer = answers->front();
  if (answer.id) {
    auto row = session.store->find(*answer.id);
    if (!row) return complain(row.error());
    answer.row = *std::move(row);
  }
  if (o.common.json) print(dump(answer_json(answer)) + "\n");
  if (!answer.good()) return o.common.json ? kMistake : complain(kMistake, answer.reason);
  if (!o.common.json) {
    const std::string now_is =
        answer.row ? what_next(*answer.row, *session.config.rules, session.now) : "gone";
    print(
        fmt::format("{}  {}{}\n", answer.id->str(), one_line(now_is),
                    answer.result == "duplicate" ? " (nothing to do: " + one_line(answer.reason) + ")" : ""));
  }
  return kDone;
}

// --------------------------------------------------------------------------------------------- many, by JSON
// lines

struct Sums {
  std::size_t created = 0, duplicates = 0, wrong = 0;
};

void tell(const Answer& answer, bool json, Sums& sums) {
  sums.created += answer.result == "created" ? 1 : 0;
  sums.duplicates += answer.result == "duplicate" ? 1 : 0;
  sums.wrong += answer.good() ? 0 : 1;
  if (json) {
    print(dump(answer_json(answer), false) + "\n");
  } else if (!answer.good()) {
    complain(kMistake, fmt::format("line {}: {}", answer.line, answer.reason));
  }
}

// Whether nothing further has come for a moment: somebody types, or a program prints now and then.
bool pauses(std::istream& in) {
  if (&in != &std::cin || in.rdbuf()->in_avail() > 0) return false;
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, kPauseMs) == 0;
}

Result<void> read_lines(std::istream& in, Submitter& submitter, bool json, Sums& sums) {
  const auto flush = [&]() -> Result<void> {
    auto answers = submitter.flush();
    if (!answers) return tl::unexpected(answers.error());
    for (const Answer& answer : *answers) tell(answer, json, sums);
    return {};
  };
  std::string text;
  for (std::size_t line = 1; std::getline(in, text); ++line) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto request = api::parse_json(text);
    std::optional<std::string> wrong = request ? submitter.add(*request, line) : request.error().message;
    if (wrong) tell({line, "refused", *std::move(wrong), {}, {}}, json, sums);
    if (!submitter.full() && !pauses(in)) continue;
    if (auto done = flush(); !done) return done;
  }
  return flush();
}

int submit_lines(const SubmitOptions& o) {
  Session session;
  if (const int code = open_session(o.common, session); code != kDone) return code;
  std::ios::sync_with_stdio(false);  // a buffer that can be asked what is in it
  std::ifstream file;
  if (o.jsonl != "-") {
    file.open(o.jsonl, std::ios::binary);
    if (!file) return complain(kMistake, "cannot read " + o.jsonl);
  }
  Submitter submitter(session);
  Sums sums;
  const auto done = read_lines(o.jsonl == "-" ? std::cin : file, submitter, o.common.json, sums);
  if (!o.common.json)
    print(fmt::format("{} submitted, {} were there already, {} refused\n", sums.created, sums.duplicates,
                      sums.wrong));
  if (!done) return complain(done.error());
  return sums.wrong > 0 ? kMistake : kDone;
}

void add_flags(CLI::App& c, SubmitOptions& o) {
  SubmitFlags& f = o.flags;
  c.add_option("--queue", f.queue, "The queue it goes to, ...")->type_name("NAME");
  c.add_option("--exchange", f.exchange, "... or the exchange, ...")->type_name("NAME");
  c.add_option("--routing-key", f.routing_key, "... with this routing key")->type_name("KEY");
  c.add_option("--tag", f.tag, "The property `type`; may say by tags: of the config where it goes")
      ->type_name("TAG");
  CLI::Option* body = c.add_option("--body", f.body, "The body, as text")->type_name("TEXT");
  c.add_option("--file", f.file, "The body: this file's bytes, - is stdin")
      ->type_name("FILE")
      ->excludes(body);
  c.add_option("--content-type", f.content_type, "Else text/plain with --body")->type_name("TYPE");
  c.add_option("--header", f.headers, "An application header; again for more")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  c.add_option("--property", f.properties, "priority, correlation_id, reply_to, app_id, timestamp, ...")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  c.add_option("--delay", f.delay, "Due so long from now on")->type_name("DURATION");
  c.add_option("--at", f.at, "Due then (UTC where no offset stands)")->type_name("TIME");
  c.add_option("--ladder", f.ladder, "What it climbs where it fails; else its tag's, else its queue's")
      ->type_name("NAME");
  c.add_option("--max-attempts", f.max_attempts, "Then it is parked")->check(CLI::Range(1, 1'000'000));
  c.add_option("--presumed-after", f.presumed_after, "Silence for so long means success")
      ->type_name("DURATION");
  c.add_option("--reported-within", f.reported_within, "Silence for so long means failure")
      ->type_name("DURATION");
  c.add_option("--message-id", f.message_id, "Its own id: submitted twice with one content it is one task")
      ->type_name("ID");
}

}  // namespace

void add_submit(CLI::App& app, int* exit) {
  auto o = std::make_shared<SubmitOptions>();
  CLI::App& c = add_command(
      app, "submit", "A message that only has to wait: into the database, for a sidecar to send",
      "Examples:\n"
      "  rung submit --queue orders.close --delay 30m --message-id close-17 --body '{\"order\":17}'\n"
      "  rung submit --exchange shop --routing-key order.close --at 2026-11-21T17:05:00Z --file order.bin\n"
      "  rung submit --tag coupon.reminder --delay 2d --body ann\n"
      "  generate | rung submit --jsonl - --json\n"
      "A line of --jsonl is a task as POST /v1/tasks takes it: {\"queue\": \"orders\", \"delay\": \"30m\", "
      "\"body\": {}}.\n"
      "The same --message-id with the same content answers with the same task; with another content: exit 1.",
      o->common);
  add_flags(c, *o);
  c.add_option("--jsonl", o->jsonl, "Many: a task a line, JSON; - is stdin")->type_name("FILE");
  c.callback([o, exit, &c] {
    o->flags.has_body = c.count("--body") > 0;
    const bool one = o->jsonl.empty();
    for (const CLI::Option* option : c.get_options()) {
      const std::string name = option->get_name();
      if (one || option->count() == 0 || name == "--jsonl" || name == "--json" || name == "--config" ||
          name == "--group")
        continue;
      *exit = complain(kMistake, name + " doesn't go with --jsonl: each line says it for itself");
      return;
    }
    *exit = one ? submit_one(*o) : submit_lines(*o);
  });
}

}  // namespace rung::cli
