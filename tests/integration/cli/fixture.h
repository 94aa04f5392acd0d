// Runs the program against its own schema; the test writes the rows through the store. With
// RUNG_TEST_CLI_BY=api the program reaches that schema over HTTP (api_server.h): every test of a command that
// works both ways runs twice.
// Thread: one at a time.
#pragma once

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/integration/cli/api_server.h"
#include "tests/support/amqp_probe.h"
#include "tests/support/mysql.h"
#include "tests/support/program.h"

namespace rung::cli {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A variable that tests/run sets; a missing server fails a test, it does not skip it.
inline std::string needed(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0')
    throw std::runtime_error(std::string(name) + " is not set: run the tests by tests/run");
  return value;
}

// Which way the program's commands go in this run of the suite: to the database, or with RUNG_TEST_CLI_BY=api
// to an instance's HTTP API.
inline bool by_api() {
  const char* by = std::getenv("RUNG_TEST_CLI_BY");
  return by != nullptr && std::string_view(by) == "api";
}

// The commands that work over HTTP, too.
inline const std::set<std::string>& api_commands() {
  static const std::set<std::string> kCommands = {
      "list",   "show",    "history", "audit", "submit", "cancel", "reschedule", "fire",   "retry", "redrive",
      "finish", "discard", "edit",    "bulk",  "causes", "queues", "pause",      "resume", "stats", "nodes"};
  return kCommands;
}

class CliTest : public ::testing::Test {
 protected:
  CliTest() {
    char folder[] = "/tmp/rung-cli-XXXXXX";
    folder_ = mkdtemp(folder);
    write_config("");
  }
  ~CliTest() override { std::filesystem::remove_all(folder_); }

  void write_config(const std::string& more, const std::string& broker = "") {
    std::ofstream(config_path()) << "broker: { url: \"" << test::amqp_url() << "\", prefix: " << prefix
                                 << broker << " }\n"
                                 << "store: { url: \"" << db.url() << "\" }\n"
                                 << more;
    if (server_ != nullptr) server_->reload();
    bulks_.reset();
  }
  std::string config_path() const { return folder_ / "rung.yaml"; }

  // What tells the command where to work: its config, or the API.
  std::vector<std::string> access(const std::string& command) {
    if (!by_api() || !api_commands().contains(command)) {
      static const std::set<std::string> kMakeBulks = {"cancel",  "discard", "fire", "finish",
                                                       "redrive", "retry",   "bulk"};
      if (!by_api() && bulks_ == nullptr && kMakeBulks.contains(command))
        bulks_ = std::make_unique<BulkThread>(config_path());
      return {"-c", config_path()};
    }
    const std::string token = "token-of-the-tester";
    if (server_ == nullptr) {
      server_ = std::make_unique<ApiServer>(
          config_path(), http::Tokens{{}, {}, {person("tester", Role::administers, token)}});
      std::ofstream(folder_ / "token") << token << "\n";
    }
    return {"--api", server_->url(), "--token-file", folder_ / "token"};
  }
  std::vector<std::string> with_access(std::vector<std::string> words) {
    const auto more = access(words.empty() ? "" : words.front());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // The same in a shell: " -c ...".
  std::string access_words(const std::string& command) {
    std::string text;
    for (const std::string& word : access(command)) text += " " + word;
    return text;
  }
  // Who has changed something, in the audit: of whoever runs the command, or of the token. As a regular
  // expression, and for SQL's LIKE.
  static std::string who() { return by_api() ? "tester, 127.0.0.1 \\(http\\)" : "[^@]+@.+ \\(cli\\)"; }
  static std::string who_like() { return by_api() ? "tester, 127.0.0.1 (http)" : "%@% (cli)"; }

  // A file beside the config; its path.
  std::string file(const std::string& name, const std::string& text) {
    const std::string path = std::filesystem::path(config_path()).parent_path() / name;
    std::ofstream(path) << text;
    return path;
  }
  Ran rung(std::vector<std::string> words) {
    words = with_access(std::move(words));
    words.insert(words.begin(), RUNG_TEST_PROGRAM);
    return run_program(words);
  }
  json rung_json(std::vector<std::string> words) {
    words.emplace_back("--json");
    const Ran ran = rung(std::move(words));
    json parsed = json::parse(ran.out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << ran.out << ran.err;
    return parsed;
  }

  MysqlStore& store() {
    if (store_ == nullptr) {
      store_ = db.open_store();
      hold({3});
    }
    return *store_;
  }
  EpochMs now() { return store().now(); }

  // Inserts a task that failed a minute ago and waits on level 1 of `default`, due in `due`.
  NewTask fresh(const std::string& queue, Ms due, const std::string& message_id = "") {
    const EpochMs at = now();
    NewTask n;
    n.task.id = ids_.next(at);
    n.task.shard = 3;
    n.task.next_at = at + due;
    n.task.levels = 9;
    n.task.ladder = "default";
    n.task.queue = queue;
    n.task.exchange = "shop";
    n.task.routing_key = "order.new";
    n.task.tag = "order";
    n.task.message_id = message_id;
    n.task.first_failed_at = at - std::chrono::minutes{1};
    n.task.created_at = at - std::chrono::minutes{1};
    n.task.last_error = "ValueError: boom";
    n.task.body_bytes = 5;
    Message message;
    message.properties.message_id = message_id;
    message.headers = Table{{"tenant", "acme"}};
    message.body = "hello";
    n.message = std::make_shared<Message>(message);
    n.origin_json = R"({"retry-error":"first boom","retry-error-type":"ValueError"})";
    return n;
  }
  TaskId insert(const NewTask& task) {
    const NewTask tasks[] = {task};
    if (store().insert(tasks, fence_).front().how != Inserted::How::inserted)
      throw std::runtime_error("insert failed");
    return task.task.id;
  }
  // Applies an event, with the rules of the config's defaults.
  void happen(TaskId id, const Happening& what) {
    const Event events[] = {{id, what}};
    const RuleBook rules({{"default", *levels::Ladder::from_list({Ms{5000}, Ms{3'600'000}})}}, {});
    const auto done = store().apply(
        events, fence_,
        [&](const Task& t, const Happening& h, const Circumstances& at) { return decide(t, h, rules, at); });
    if (done.front().verdict != Decision::Verdict::applied) throw std::runtime_error(done.front().reason);
  }
  Task row(TaskId id) { return store().find(id)->task; }
  State state_of(TaskId id) { return row(id).state; }
  Message message_of(TaskId id) {
    const TaskId ids[] = {id};
    return *store().messages(ids).front().message;
  }

  test::MysqlSchema db;
  const std::string prefix = test::unique_name("cli");

  // The test's node acquires the shards, under new epochs.
  void hold(const std::vector<int>& shards) {
    node_ = store_->register_node({"test-node", "0", "here", 7}, lease_);
    fence_ = {node_, store_->acquire(node_, 7, shards, lease_)};
  }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<MysqlStore> store_;
  std::unique_ptr<ApiServer> server_;
  std::unique_ptr<BulkThread> bulks_;  // without a server, which has its own
  int node_ = 0;
  Fence fence_;
  const Ms lease_{std::chrono::hours{1}};
  IdSource ids_{1};
};

}  // namespace rung::cli
