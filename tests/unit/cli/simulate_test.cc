// rung simulate on files: its output, and what is wrong with its input. No servers.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "src/cli/shared/ctl.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kServers =
    "broker: { url: \"amqp://127.0.0.1:1/\" }\nstore: { url: \"mysql://rung@127.0.0.1:1/rung\" }\n";
constexpr const char* kLadder = "ladders: { default: [5s, 30s, 1m, 5m, 10m, 30m] }\n";
constexpr const char* kRules =
    "ladders: { default: [10s, 2m, 5m, 10m, 30m, 1h] }\n"
    "rules: { shop: [{ when: { type: ValidationError }, then: park }] }\n"
    "queues: { orders: { rules: shop } }\n";

class SimulateFile : public ::testing::Test {
 protected:
  SimulateFile() {
    char folder[] = "/tmp/rung-cli-XXXXXX";
    folder_ = mkdtemp(folder);
    before_ = write("rung.yaml", std::string(kServers) + kLadder);
    after_ = write("new.yaml", std::string(kServers) + kRules);
  }
  ~SimulateFile() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::string path = folder_ / name;
    std::ofstream(path) << text;
    return path;
  }
  Ran simulate(std::vector<std::string> words) {
    words.insert(words.begin(), {RUNG_TEST_PROGRAM, "simulate", "-c", after_, "--queue", "orders"});
    auto ran = run_program(words, 60s);
    EXPECT_TRUE(ran) << ran.error().message;
    return *ran;
  }

  std::filesystem::path folder_;
  std::string before_, after_;
};

TEST_F(SimulateFile, TheExampleBesideAnotherConfig) {
  const Ran ran = simulate({"--failures", RUNG_TEST_EXAMPLES "/failures.jsonl", "--against", before_});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, AllOf(HasSubstr("queue orders: 50 failed messages, 2026-11-16 10:00:00 to"),
                             ContainsRegex(" new.yaml +rung.yaml\n"), ContainsRegex("parked +8 +8\n"),
                             HasSubstr("load on the target: deliveries in each 5m (UTC)\n11-16 10:00:00 "),
                             HasSubstr("A delivery fails until")));
  EXPECT_THAT(ran.out, Not(HasSubstr("breaker")));
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

TEST_F(SimulateFile, Json) {
  const Ran ran = simulate({"--failures", RUNG_TEST_EXAMPLES "/failures.jsonl", "--json"});
  EXPECT_EQ(ran.exit, 0) << ran.err;
  const auto answer = nlohmann::json::parse(ran.out);
  EXPECT_EQ(answer["tried"]["messages"], 50);
  EXPECT_EQ(answer["tried"]["succeeded"], 42);
  EXPECT_EQ(answer["tried"]["parked"], 8);
  EXPECT_EQ(answer["tried"]["held_back"], 0);
  EXPECT_EQ(answer["beside"], nullptr);
  std::int64_t sum = 0;
  for (const auto& line : answer["load"]) sum += line["attempts"].get<std::int64_t>();
  EXPECT_EQ(answer["tried"]["attempts"], sum);
  EXPECT_EQ(ran.out, simulate({"--failures", RUNG_TEST_EXAMPLES "/failures.jsonl", "--json"}).out);
}

TEST_F(SimulateFile, WrongInput) {
  const std::string wrong =
      write("wrong.jsonl", "{\"at\":\"0s\"}\n{\"at\":\"0s\",\"works_afer\":\"1m\"}\n{]\n");
  const Ran ran = simulate({"--failures", wrong});
  EXPECT_EQ(ran.exit, 1);
  EXPECT_EQ(ran.out, "");
  EXPECT_THAT(ran.err, AllOf(HasSubstr("wrong.jsonl:2: works_afer: unknown field; known fields: at, "),
                             HasSubstr("wrong.jsonl:3: invalid JSON")));
  EXPECT_THAT(simulate({"--failures", write("none.jsonl", "\n")}).err, HasSubstr("has no failures"));
  EXPECT_THAT(simulate({"--failures", "/no/such"}).err, HasSubstr("cannot read /no/such"));
  EXPECT_EQ(simulate({"--failures", wrong, "--from-history", "1d"}).exit, 1);
  EXPECT_EQ(simulate({"--against", before_}).exit, 1);
}

// Nothing listens there.
TEST_F(SimulateFile, TheHistoryNeedsTheDatabase) { EXPECT_EQ(simulate({}).exit, 2); }

}  // namespace
}  // namespace rung::cli
