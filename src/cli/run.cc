#include "src/cli/run.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "plugin/rabbitmq/management.h"
#include "plugin/rabbitmq/rabbit_broker.h"
#include "src/bridge/bridge.h"
#include "src/config/config.h"
#include "src/core/url.h"
#include "src/http/api.h"
#include "src/io/log.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::cli {
namespace {

bool print_problems(const LoadedConfig& loaded) {
  for (const ConfigProblem& problem : loaded.problems) std::fprintf(stderr, "%s\n", problem.str().c_str());
  return !loaded.ok();
}

std::string vhost_of(const BrokerOptions& broker) {
  const auto url = parse_url(broker.url);
  return url && !url->path.empty() ? url->path : "/";
}

std::string host_and_pid() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(getpid());
}

// For each queue of the config: do its dead letters come to us? What isn't attached is told with the line
// that attaches it. Asks the management API, which may be slow or not there: on a thread of its own.
class AttachReport {
 public:
  void begin(const Config& config) {
    for (const auto& [name, rules] : config.rules->queues()) {
      if (name != "default") queues_.emplace_back(name, rules.ladder);
    }
    if (queues_.empty()) {
      log::info(
          "no queue is named in the config: every message that comes in takes the rules of queues.default");
      return;
    }
    thread_ = std::thread([this, broker = config.broker] {
      for (const auto& [queue, ladder] : queues_) {
        if (!stopping_) report(broker, queue, ladder);
      }
    });
  }
  // Waits for one question at most; each has its own time-out of two seconds.
  ~AttachReport() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  static void report(const BrokerOptions& broker, const std::string& queue, const std::string& ladder) {
    using rabbit::Attached;
    const auto answer = rabbit::ask_attached(broker, queue);
    const std::string line = rabbit::policy_command(broker.prefix, vhost_of(broker), queue);
    switch (answer.attached) {
      case Attached::yes_by_argument:
      case Attached::yes_by_policy:
        return log::info("attached",
                         {{"queue", queue},
                          {"ladder", ladder},
                          {"by", answer.attached == Attached::yes_by_policy ? "policy" : "queue argument"}});
      case Attached::no:
        return log::warn("not attached: its dead letters do not come here",
                         {{"queue", queue}, {"ladder", ladder}, {"now", answer.detail}, {"attach", line}});
      case Attached::no_such_queue:
        return log::warn("no such queue yet", {{"queue", queue}, {"ladder", ladder}, {"attach", line}});
      case Attached::unknown:
        return log::info("whether it is attached cannot be seen without the management API",
                         {{"queue", queue}, {"ladder", ladder}, {"reason", answer.detail}, {"attach", line}});
    }
  }

  std::vector<std::pair<std::string, std::string>> queues_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// Connections to the database. The first one creates or checks the schema; what no waiting mends ends the
// sidecar.
class Stores {
 public:
  Stores(StoreOptions options, Ms silence, std::function<void(const std::string&)> fatal)
      : options_(std::move(options)), silence_(silence), fatal_(std::move(fatal)) {}

  // For the flow: holds locks that others wait for.
  Result<std::unique_ptr<Store>> open() { return checked(open_mysql_store(options_, silence_)); }

  // For what people ask: nobody waits for it, and nobody waits for `timeout` and longer.
  Result<std::unique_ptr<Store>> open_reader(Ms timeout) {
    StoreOptions options = options_;
    options.timeout = std::max(std::min(options.timeout, timeout), Ms{1000});
    return checked(open_mysql_store(options));
  }

 private:
  Result<std::unique_ptr<Store>> checked(Result<std::unique_ptr<Store>> store) {
    if (!store) return store;
    const std::lock_guard lock(mutex_);
    if (ready_) return store;
    if (auto made = prepare(**store); !made) {
      if (!made.error().is_transient()) fatal_(made.error().message);
      return tl::unexpected(made.error());
    }
    ready_ = true;
    return store;
  }

  Result<void> prepare(Store& store) const {
    if (!options_.migrate) return store.check_schema();
    const auto applied = store.migrate();
    if (!applied) return tl::unexpected(applied.error());
    for (const std::string& name : *applied) log::info("schema migrated", {{"migration", name}});
    return {};
  }

  const StoreOptions options_;
  const Ms silence_;
  const std::function<void(const std::string&)> fatal_;
  std::mutex mutex_;
  bool ready_ = false;  // guarded by mutex_
};

bridge::BridgeSettings settings_of(const Config& config) {
  bridge::BridgeSettings s;
  s.identity = {config.node, RUNG_VERSION, host_and_pid(), std::random_device{}()};
  s.identity.incarnation = (s.identity.incarnation << 31) | (std::random_device{}() >> 1);
  s.lease = config.lease;
  s.window = config.window;
  s.max_loaded = static_cast<std::size_t>(config.max_loaded);
  s.heartbeat = config.broker.heartbeat;
  s.flow_threads = std::max(config.store.connections - 1, 1);  // one more has the leases
  s.max_unconfirmed = config.broker.max_unconfirmed;
  s.prefix = config.broker.prefix;
  s.delays = config.delays;
  s.retention = config.retention;
  return s;
}

class Sidecar {
 public:
  Sidecar(std::string config_path, Config config)
      : path_(std::move(config_path)),
        config_(std::move(config)),
        stores_(config_.store, config_.lease * 2 / 3,  // what a lease has left at least
                [this](const std::string& reason) { loop_.post([this, reason] { fatal(reason); }); }),
        broker_(make_rabbit_broker(config_.broker)),
        bridge_(
            loop_, *broker_, [this] { return stores_.open(); }, settings_of(config_), config_.rules,
            [this] {
              fatal("another process runs as node '" + config_.node + "': give each its own `node:`");
            }),
        term_(loop_, SIGTERM, [this] { drain("SIGTERM"); }),
        interrupt_(loop_, SIGINT, [this] { drain("SIGINT"); }),
        hangup_(loop_, SIGHUP, [this] { reload(); }),
        deadline_(loop_, [this] { cut_short(); }),
        connections_(loop_, [this] { answered(); }) {}

  int run() {
    summary();
    auto started = listen();
    if (started) started = bridge_.start();
    if (started) {
      attached_.begin(config_);
      loop_.run();
    } else {
      log::error("cannot start", {{"reason", started.error().message}});
      code_ = 1;
    }
    const bool answered = http_ == nullptr || http_->stop(Ms{200});  // without the loop nothing is answered
    if (!bridge_.stop(ending_ ? left() : Ms{2000}) || !answered) {
      // A thread hangs in a call (a server that is stalled): the process ends all the same, as after a kill.
      log::warn("ended without waiting for a call that hangs", {{"exit", code_}});
      std::_Exit(code_);
    }
    log::info("ended", {{"exit", code_}});
    return code_;
  }

 private:
  void summary() const {
    log::info("rung starts", {{"version", RUNG_VERSION},
                              {"node", config_.node},
                              {"broker", without_password(config_.broker.url)},
                              {"database", without_password(config_.store.url)},
                              {"lease", levels::format_duration(config_.lease)},
                              {"window", levels::format_duration(config_.window)},
                              {"retention", config_.retention ? levels::format_duration(*config_.retention)
                                                              : std::string("off")}});
    for (const auto& [name, rules] : config_.rules->queues()) {
      const levels::Ladder* ladder = config_.rules->ladder(rules.ladder);
      log::info(name == "default" ? "other queues" : "queue",
                {{"queue", name},
                 {"ladder", rules.ladder},
                 {"levels", ladder != nullptr ? ladder->levels() : 0},
                 {"silence", rules.silence.means == Silence::Means::success ? "success" : "failure"},
                 {"after", levels::format_duration(rules.silence.after)}});
    }
    for (const auto& [from, to] : config_.delays) log::info("delayed exchange", {{"from", from}, {"to", to}});
  }

  Result<void> listen() {
    const HttpOptions& http = config_.http;
    if (http.listen.empty()) return {};
    http::ApiParts parts;
    parts.bridging.submit = [this](auto batch, auto done) {
      bridge_.submit(std::move(batch), std::move(done));
    };
    parts.bridging.change = [this](auto events, auto done) {
      bridge_.change(std::move(events), std::move(done));
    };
    parts.store = [this, most = http::Reads::work_patience(http.timeout)] {
      return stores_.open_reader(most);
    };
    parts.ask_vitals = [this](auto answer) {
      loop_.post([this, answer = std::move(answer)] { answer(bridge_.vitals()); });
    };
    parts.rules = config_.rules;
    parts.version = RUNG_VERSION;
    parts.full_token = http.token;
    parts.read_token = http.read_token;
    parts.server = {http.host,        http.port,   http.cert, http.key, std::size_t(http.max_body) << 20,
                    http.connections, http.timeout};
    auto api = http::Api::start(std::move(parts));
    if (!api) return tl::unexpected(api.error());
    http_ = *std::move(api);
    log::info("the HTTP API listens", {{"address", http.listen},
                                       {"tls", !http.cert.empty()},
                                       {"token", http.token.empty() ? "none asked for" : "asked for"}});
    return {};
  }

  void fatal(const std::string& reason) {
    log::error("cannot go on", {{"reason", reason}});
    code_ = 1;
    loop_.stop();
  }

  Ms left() const { return std::max(ends_by_ - boot_now(), Ms{100}); }

  void drain(const char* why) {
    if (ending_) return;
    ending_ = true;
    ends_by_ = boot_now() + config_.drain;
    log::info("draining", {{"because", why}, {"most", levels::format_duration(config_.drain)}});
    // Whatever hangs, in our code or in a library: the process ends in time.
    std::thread([most = config_.drain, code = code_] {
      std::this_thread::sleep_for(most - most / 20);
      std::_Exit(code);
    }).detach();
    deadline_.start(config_.drain * 6 / 10);
    if (http_ != nullptr) http_->drain();
    bridge_.drain([this] {
      drained_ = true;
      answered();
    });
  }

  // What was asked of us before is answered by the loop, also that all is over here: it ends with the last
  // connection. deadline_ bounds that.
  void answered() {
    if (http_ == nullptr || http_->connections() == 0) return loop_.stop();
    connections_.start(Ms{10});
  }

  // What is under way stays as it is: its rows say `publishing`, and whoever takes the shards publishes it
  // again.
  void cut_short() {
    if (std::exchange(cut_short_, true) || drained_) return loop_.stop();
    log::warn("drain takes too long: ending as after a crash, nothing is lost by it");
    deadline_.start(config_.drain / 10);
    bridge_.give_back([this] { loop_.stop(); });
  }

  void reload() {
    LoadedConfig loaded = load_config(path_);
    if (!loaded.ok()) {
      for (const ConfigProblem& problem : loaded.problems)
        log::error("config not taken", {{"problem", problem.str()}});
      log::error("the config has mistakes: the old one stays in force", {{"file", path_}});
      return;
    }
    bridge_.reload(loaded.config.rules, loaded.config.retention);
    if (http_ != nullptr) http_->reload(loaded.config.rules);
    log::configure(loaded.config.log.level, loaded.config.log.format);
    const bool more =
        loaded.config.broker.url != config_.broker.url || loaded.config.store.url != config_.store.url ||
        loaded.config.node != config_.node || loaded.config.lease != config_.lease ||
        loaded.config.window != config_.window || loaded.config.delays != config_.delays ||
        loaded.config.http.listen != config_.http.listen || loaded.config.http.token != config_.http.token ||
        loaded.config.http.read_token != config_.http.read_token;
    log::info("config reloaded: ladders, queues, tags, retention and log", {{"file", path_}});
    if (more) log::warn("what else changed in the config needs a restart", {{"file", path_}});
    config_.rules = loaded.config.rules;
    config_.retention = loaded.config.retention;
  }

  const std::string path_;
  Config config_;
  io::Loop loop_;
  Stores stores_;
  std::unique_ptr<Broker> broker_;
  bridge::Bridge bridge_;
  std::unique_ptr<http::Api> http_;  // none where nothing listens
  AttachReport attached_;
  io::Signal term_, interrupt_, hangup_;
  io::Timer deadline_;
  io::Timer connections_;  // are they gone
  int code_ = 0;
  bool ending_ = false;
  bool cut_short_ = false;
  bool drained_ = false;  // the bridge
  BootMs ends_by_{0};
};

}  // namespace

int run_sidecar(const std::string& config_path) {
  // Until the loop catches them there is nothing to drain.
  for (const int number : {SIGTERM, SIGINT}) std::signal(number, [](int) { _exit(0); });
  LoadedConfig loaded = load_config(config_path);
  if (print_problems(loaded)) return 1;
  log::configure(loaded.config.log.level, loaded.config.log.format);
#ifdef __GLIBC__
  // Bodies of that size go back to the system when they are let go of. glibc would raise the threshold with
  // each of them, up to 32 MB, and keep their memory.
  mallopt(M_MMAP_THRESHOLD, 256 * 1024);
#endif
  std::signal(SIGPIPE, SIG_IGN);  // a broken connection is an error code, not a death
  return Sidecar(config_path, std::move(loaded.config)).run();
}

}  // namespace rung::cli
