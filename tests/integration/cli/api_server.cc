#include "tests/integration/cli/api_server.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <stdexcept>
#include <thread>

#include "plugin/brokers.h"
#include "src/bridge/changes/bulk.h"
#include "src/bridge/changes/submissions.h"
#include "src/config/config.h"
#include "src/core/base/clock.h"
#include "src/core/machine/submission.h"
#include "src/core/message/digest.h"
#include "src/http/api.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;

Config read_config(const std::string& path) {
  LoadedConfig loaded = load_config(path, ConfigFor::sidecar);
  if (!loaded.ok()) throw std::runtime_error(loaded.problems.front().str());
  loaded.config.store.migrate = false;
  return std::move(loaded.config);
}

}  // namespace

PersonToken person(const std::string& name, Role role, const std::string& token) {
  return {{name, role, nullptr}, sha256(token)};
}

struct ApiServer::Impl {
  Impl(std::string path, http::Tokens known) : config_path(std::move(path)), tokens(std::move(known)) {
    open();
  }
  ~Impl() { close(); }

  void open() {
    config = read_config(config_path);
    http::ApiParts parts;
    parts.bridging.submit = [this](auto batch, auto done) { submit(std::move(batch), std::move(done)); };
    parts.bridging.change = [this](auto events, auto done) { done(change(events)); };
    parts.store = [this] { return open_mysql_store(config.store, clock); };
    parts.ask_vitals = [](auto answer) { answer({}); };
    parts.rules = config.rules;
    parts.reserved_headers = reserved_headers(config.broker);
    parts.index_headers = config.store.index_headers;
    parts.version = "test";
    parts.tokens = tokens;
    parts.server.cert = config.http.cert;
    parts.server.key = config.http.key;
    auto started = http::Api::start(std::move(parts), clock);
    if (!started) throw std::runtime_error(started.error().message);
    api = *std::move(started);
    stopping = false;
    bulks = std::thread([this] { run_bulks(); });
  }

  void close() {
    stopping = true;
    bulks.join();
    api->drain();
    while (!api->stop(10s)) {
    }
    api.reset();
    store.reset();
  }

  // REQUIRES: the lock.
  MysqlStore& own_store() {
    if (store == nullptr) {
      auto opened = open_mysql_store(config.store, clock);
      if (!opened) throw std::runtime_error(opened.error().message);
      store = *std::move(opened);
    }
    return *store;
  }

  void submit(std::vector<Submission> batch, bridge::Submissions::SubmitDone done) {
    const std::lock_guard lock(mutex);
    const EpochMs now = *own_store().now();
    std::vector<NewTask> tasks;
    for (Submission& s : batch) {
      NewTask made = std::move(s.task);
      made.task.id = ids.next(now);
      made.task.shard = static_cast<int>(made.task.id.value % kShards);
      made.task.created_at = now;
      made.task.rule_headers = rule_headers_of(*made.message, *config.rules);
      begin_delay(made.task, s.directives, *config.rules, now, s.at.value_or(now + s.delay));
      tasks.push_back(std::move(made));
    }
    const auto inserted = own_store().insert(tasks, Fence{0, {}, true});
    if (!inserted) return done(tl::unexpected(inserted.error()));
    std::vector<bridge::Submitted> answers;
    for (std::size_t i = 0; i < tasks.size(); ++i) answers.push_back({(*inserted)[i], tasks[i].task});
    done(std::move(answers));
  }

  Result<std::vector<Decision>> change(const std::vector<Event>& events) {
    const std::lock_guard lock(mutex);
    return own_store().apply(events, Fence{}, decider(config.rules));
  }

  // As a sidecar's runner: each step that is due.
  void run_bulks() {
    const std::string runner = "sidecar-of-the-test";
    std::unique_ptr<MysqlStore> mine;
    for (; !stopping; std::this_thread::sleep_for(10ms)) {
      if (mine == nullptr) {
        auto opened = open_mysql_store(config.store, clock);
        if (!opened) continue;  // the test has no schema yet
        mine = *std::move(opened);
      }
      const auto taken = mine->take_bulk(runner, 10s);
      if (!taken || !*taken) continue;
      (void)bridge::perform_step(*mine, **taken, runner, Fence{}, config.rules);  // repeated if it failed
    }
  }

  const std::string config_path;
  const http::Tokens tokens;
  SystemClock clock;
  Config config;
  std::mutex mutex;
  std::unique_ptr<MysqlStore> store;  // guarded by mutex, once the server runs
  IdSource ids{static_cast<int>(std::random_device{}() % 1024)};
  std::unique_ptr<http::Api> api;
  std::atomic<bool> stopping{false};
  std::thread bulks;
};

ApiServer::ApiServer(std::string config_path, const http::Tokens& tokens)
    : impl_(std::make_unique<Impl>(std::move(config_path), tokens)) {}
ApiServer::~ApiServer() = default;

std::string ApiServer::url() const {
  const char* scheme = impl_->config.http.cert.empty() ? "http" : "https";
  return std::string(scheme) + "://127.0.0.1:" + std::to_string(impl_->api->port());
}

void ApiServer::reload() {
  impl_->close();
  impl_->open();
}

}  // namespace rung::cli
