#include "tests/integration/cli/api_server.h"

#include <chrono>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "plugin/rabbitmq/wire/broker_headers.h"
#include "src/bridge/changes/bulk.h"
#include "src/cli/service/api.h"
#include "src/config/config.h"
#include "src/core/base/time.h"
#include "src/core/message/identity.h"
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

BulkThread::BulkThread(const std::string& config_path)
    : thread_([this, config_path] {
        Config config;
        try {
          config = read_config(config_path);
        } catch (const std::runtime_error&) {
          return;  // no sidecar runs with it
        }
        const SystemClock clock;
        const std::string runner = "sidecar-of-the-test";
        std::unique_ptr<MysqlStore> mine;
        for (; !stopping_; std::this_thread::sleep_for(10ms)) {
          try {
            if (mine == nullptr) mine = open_mysql_store(config.store, clock);
            if (const auto taken = mine->take_bulk(runner, 10s))
              bridge::perform_step(*mine, *taken, runner, Fence{}, config.rules);
          } catch (const StoreError&) {  // the test has no schema yet; a step that failed is repeated
          }
        }
      }) {}
BulkThread::~BulkThread() {
  stopping_ = true;
  thread_.join();
}

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
    writes = store_bridging(reads, config);
    parts.bridging.submit = [this](auto batch, auto done) {
      const std::lock_guard lock(mutex);
      writes.submit(std::move(batch), std::move(done));
    };
    parts.bridging.change = [this](auto events, auto done) {
      const std::lock_guard lock(mutex);
      writes.change(std::move(events), std::move(done));
    };
    parts.store = [this] { return open_mysql_store(config.store, clock); };
    parts.ask_vitals = [](auto answer) { answer({}); };
    parts.rules = config.rules;
    parts.reserved_headers = rabbit::reserved_headers();
    parts.index_headers = config.store.index_headers;
    parts.version = "test";
    parts.tokens = tokens;
    parts.server.cert = config.http.cert;
    parts.server.key = config.http.key;
    auto started = http::Api::start(std::move(parts), clock);
    if (!started) throw std::runtime_error(started.error().message);
    api = *std::move(started);
    bulks.emplace(config_path);
  }

  void close() {
    bulks.reset();
    api->drain();
    while (!api->stop(10s)) {
    }
    api.reset();
  }

  const std::string config_path;
  const http::Tokens tokens;
  SystemClock clock;
  Config config;
  api::Reads reads{[this] { return open_mysql_store(config.store, clock); }, 1, 10s, clock};
  std::mutex mutex;
  api::Bridging writes;  // guarded by mutex, once the server runs
  std::unique_ptr<http::Api> api;
  std::optional<BulkThread> bulks;
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
