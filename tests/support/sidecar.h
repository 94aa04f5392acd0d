// The program `rung run` as a child process, as a user starts it: with a rung.yaml in its own folder, and
// stderr in a file. Also the fixture of the tests that observe it from outside, only through RabbitMQ and the
// contract's views. Thread: one at a time.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/amqp_probe.h"
#include "tests/support/mysql.h"

namespace rung::test {

// Text as a YAML scalar in quotes, whatever bytes are in it (UTF-8).
std::string yaml(std::string_view text);

// The contents of a test's rung.yaml. The texts are YAML.
struct SidecarConfig {
  std::string broker_url = amqp_url();
  std::string store_url;                             // MysqlSchema::url()
  std::vector<std::string> broker_urls, store_urls;  // if not empty: `urls` instead of `url`
  std::string prefix = unique_name("p");             // broker.prefix
  std::string node = "node-1";
  std::string broker;                            // more keys of broker: "  prefetch: 10\n"
  std::string store;                             // more keys of store
  std::string ladder = "[200ms, 400ms, 800ms]";  // ladders.default
  std::string ladders;                           // more ladders: "  slow: [1h]\n"
  std::string queues;                            // "  orders: { ladder: slow }\n"
  std::string log = "{ level: debug }";
  std::string more;  // more keys of the file: "lease: 3s\n"

  std::string text() const;
  void queue(std::string_view name, std::string_view rules);  // adds to `queues`
};

class Sidecar {
 public:
  explicit Sidecar(const SidecarConfig& config);  // writes the file, starts nothing
  ~Sidecar();                                     // kill -9; removes the folder
  Sidecar(const Sidecar&) = delete;
  Sidecar& operator=(const Sidecar&) = delete;

  void start();  // REQUIRES: it is not running. The log continues in the same file
  // Waits until it consumes failed messages: until <prefix>.failed has that many consumers.
  bool wait_ready(Ms within = kBound, std::uint32_t consumers = 1);
  void signal(int number);
  void kill9();  // and waits for its end
  // Its exit code, 128 + n if signal n ended it; nullopt if it still runs after `within`.
  std::optional<int> wait_exit(Ms within = kBound);
  bool running();
  pid_t pid() const { return pid_; }

  void rewrite(const std::string& text);  // rung.yaml; the process reads it after SIGHUP
  std::string config_path() const { return (folder_ / "rung.yaml").string(); }
  std::string log() const;              // all of it
  std::string log_since_start() const;  // from the last start() on
  // Waits until the log since the last start holds `text`.
  bool logged(std::string_view text, Ms within = kBound) const;
  std::string log_tail(std::size_t bytes = 8000) const;

 private:
  std::filesystem::path folder_;
  std::string prefix_;
  std::string broker_url_;
  pid_t pid_ = -1;  // -1 = not running
  std::uintmax_t started_at_ = 0;
};

// The output of a command, and its exit code.
struct Ran {
  int code = 0;
  std::string out;  // stdout and stderr
};
Ran run_shell(const std::string& command);
std::string rung_program();

// A row of a view by its columns' names; NULL as "NULL".
using Row = std::map<std::string, std::string>;

class SidecarTest : public ::testing::Test {
 protected:
  SidecarTest();
  ~SidecarTest() override;

  // Starts a sidecar with `config` and waits until it consumes.
  void start();
  Sidecar& rung() { return *sidecar_; }
  // `rung WORDS` with the sidecar's config.
  Ran command(const std::string& words) {
    return run_shell("'" + rung_program() + "' " + words + " -c '" + rung().config_path() + "'");
  }
  std::string failed() const { return config.prefix + ".failed"; }
  std::string results() const { return config.prefix + ".results"; }
  std::string parked() const { return config.prefix + ".parked"; }

  // A new name for a queue, which is removed at the end.
  std::string new_name(std::string_view what = "q");
  // Declares such a queue; its dead letters go to <prefix>.failed.
  std::string attached(std::string_view what = "q");
  void declare_attached(const std::string& name);
  void remove_at_end(const std::string& queue) { queues_.push_back(queue); }

  // Publishes to the queue, takes the message and rejects it, so that it is dead-lettered. Returns the
  // delivery.
  Received fail(const std::string& queue, const Message& message);
  // Publishes `count` failed messages for `queue`, confirmed, to <prefix>.failed, as a consumer does:
  // failed_message().
  void publish_failed(const std::string& queue, std::size_t count, const std::string& name = "m");
  // The next delivery of `queue`; if there is none, fails the test and returns an empty message.
  Received delivery(const std::string& queue, Ms within = kBound);
  // Expects that `queue` gets nothing that is due within `from_now`: tasks of another queue that are due
  // then, enough for shards of every instance, arrive, and nothing is there.
  void expect_nothing(const std::string& queue, Ms from_now = Ms{1000});
  // Publishes a consumer's result for a delivery to <prefix>.results.
  void report(const Received& delivered, std::string_view result, std::string_view error = "");

  std::vector<Row> rows(const std::string& sql);
  std::vector<Row> current(const std::string& queue);  // retry_current by retry_id
  std::vector<Row> history(const std::string& id);     // retry_history by attempt
  // Waits until the queue's only row has that state; returns the row as last seen, reached or not.
  Row wait_state(const std::string& queue, std::string_view state, Ms within = kBound);
  Row wait_id(const std::string& id, std::string_view state, Ms within = kBound) {
    return wait_row("retry_id = " + id, state, within);
  }
  // The same of the row of retry_current that `where` finds. `state`: "" = any.
  Row wait_row(const std::string& where, std::string_view state, Ms within = kBound);

  AmqpProbe amqp;
  MysqlSchema db;
  SidecarConfig config;
  std::unique_ptr<Sidecar> sidecar_;

 private:
  std::vector<std::string> queues_;
  bool in_schema_ = false;
};

// A persistent message that has failed in `queue`; `name` is its body and message-id.
Message failed_message(const std::string& queue, const std::string& name);

// Reading headers. An absent header is "" or -1.
std::string text_header(const Message& message, std::string_view name);
std::int64_t int_header(const Message& message, std::string_view name);
bool has_header(const Message& message, std::string_view name);
std::string retry_id(const Received& received);   // header retry-id
std::int64_t wall_ms();                           // this machine's wall clock; the test's servers share it
std::int64_t ms_of(const std::string& datetime);  // "2026-11-21 17:00:00.123" UTC

}  // namespace rung::test
