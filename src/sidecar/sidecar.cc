#include "src/sidecar/sidecar.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "plugin/broker.h"
#include "plugin/broker_options.h"
#include "plugin/rabbitmq/wire/broker_headers.h"
#include "src/bridge/bridge.h"
#include "src/bridge/watch/store_watch.h"
#include "src/config/config.h"
#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/http/api.h"
#include "src/io/log.h"
#include "src/io/service_manager.h"
#include "src/oidc/provider.h"
#include "src/otel/exporter.h"
#include "src/otel/task_traces.h"
#include "src/sidecar/attach.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::sidecar {
namespace {

volatile std::sig_atomic_t reload_wanted = 0;  // a SIGHUP from before the loop took them
constexpr Ms kWatchStart{200};
constexpr Ms kEagerCheck{2000};  // after a queue became detached

std::string host_and_pid() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(getpid());
}

std::string without_passwords(const std::vector<Url>& urls) {
  std::string out;
  for (const Url& url : urls) out += (out.empty() ? "" : ", ") + hide_password(format_url(url));
  return out;
}

// The bridge's settings, from the config. `tracer`: nullptr = no traces.
bridge::BridgeSettings bridge_settings(const Config& config, bridge::Tracer* tracer) {
  bridge::BridgeSettings s;
  s.identity = {config.node, RUNG_VERSION, host_and_pid(), std::random_device{}()};
  s.identity.incarnation = (s.identity.incarnation << 31) | (std::random_device{}() >> 1);
  s.lease = config.lease;
  s.window = config.window;
  s.max_loaded = static_cast<std::size_t>(config.max_loaded);
  s.heartbeat = config.broker.heartbeat;
  s.max_unconfirmed = config.broker.max_unconfirmed;
  s.prefix = config.broker.prefix;
  s.delays = config.delays;
  s.retention = config.retention;
  s.require_token = config.require_token;
  s.tracer = tracer;
  return s;
}

// Logs the settings that matter, at the start.
void log_settings(const Config& config) {
  log::info("rung starting", {{"version", RUNG_VERSION},
                              {"node", config.node},
                              {"broker", without_passwords(config.broker.urls)},
                              {"database", without_passwords(config.store.urls)},
                              {"lease", levels::format_duration(config.lease)},
                              {"window", levels::format_duration(config.window)},
                              {"retention", config.retention ? levels::format_duration(*config.retention)
                                                             : std::string("off")}});
  const QueueGroups& groups = config.groups;
  if (!groups.empty()) {
    log::info("group", {{"group", groups.own},
                        {"prefix", config.broker.prefix},
                        {"queues", fmt::format("{}", fmt::join(groups.find(groups.own)->queues, ", "))}});
  }
  if (!config.rules->targets().allow) {
    log::warn(
        "headers may name any queue or exchange as a message's target: restrict them with "
        "broker.targets.allow",
        {{"never", config.rules->targets().own + "*, amq.*"}});
  }
}

// All our connections use one address.
StoreOptions with_one_address(StoreOptions options, const Clock& clock) {
  options.causes = std::make_shared<CauseBook>(options.cause_rules);
  options.addresses = mysql_addresses(options, clock);
  options.addresses->on_change([](const std::string& address, const std::string& passed_over) {
    if (passed_over.empty()) return log::info("database connected", {{"address", address}});
    log::warn("database connected", {{"address", address}, {"passed_over", passed_over}});
  });
  return options;
}

void warn_of_risks(MysqlStore& store) {
  const auto variables = result_of([&] { return store.server_variables(); });
  if (!variables) return;  // `rung doctor` reports why
  for (const ServerRisk& risk : server_risks(*variables))
    log::warn("risky database server setting", {{"check", risk.name}, {"is", risk.what}, {"mend", risk.fix}});
}

// Database connections. The first one creates or checks the schema; an error that waiting cannot fix ends the
// sidecar. Thread: any.
class RunStores {
 public:
  // `silence`: as in open_mysql_store(), for the flow. `fatal`: called by any thread. REQUIRES: `clock`
  // outlives it.
  RunStores(StoreOptions options, const Clock& clock, Ms silence,
            std::function<void(const std::string&)> fatal)
      : options_(with_one_address(std::move(options), clock)),
        clock_(clock),
        silence_(silence),
        fatal_(std::move(fatal)) {}

  // Throw StoreError. For the flow: these connections hold locks that others wait for.
  std::unique_ptr<MysqlStore> open() { return checked(open_mysql_store(options_, clock_, silence_)); }
  // For user queries: nobody waits for their locks, and no caller waits `timeout` or longer.
  std::unique_ptr<MysqlStore> open_reader(Ms timeout) {
    StoreOptions options = options_;
    options.timeout = std::max(std::min(options.timeout, timeout), Ms{1000});
    return checked(open_mysql_store(options, clock_));
  }

 private:
  std::unique_ptr<MysqlStore> checked(std::unique_ptr<MysqlStore> store) {
    const std::lock_guard lock(mutex_);
    if (ready_) return store;
    try {
      warn_of_risks(*store);
      if (!options_.migrate) store->check_schema();
      const std::string created = options_.migrate ? store->migrate() : "";
      if (!created.empty()) log::info("schema migrated", {{"created", created}});
    } catch (const StoreError& e) {
      // A missing right may be granted while we wait; start.wait limits the wait.
      if (!e.error.is_transient()) fatal_(e.error.message);
      throw;
    }
    ready_ = true;
    return store;
  }

  const StoreOptions options_;
  const Clock& clock_;
  const Ms silence_;
  const std::function<void(const std::string&)> fatal_;
  std::mutex mutex_;
  bool ready_ = false;  // guarded by mutex_
};

// Sends spans to the collector; none without otel.endpoint. Its destructor sends the last ones, within 1 s.
std::unique_ptr<otel::Exporter> make_exporter(const Config& config, const Clock& clock) {
  if (config.otel.endpoint.empty()) return nullptr;
  otel::ExporterOptions options;
  options.endpoint = config.otel.endpoint;
  options.headers = config.otel.headers;
  options.ca = config.otel.ca;
  options.verify = config.otel.verify;
  options.resource = {{"service.name", config.otel.service},
                      {"service.version", std::string(RUNG_VERSION)},
                      {"service.instance.id", config.node},
                      {"rung.prefix", config.broker.prefix}};
  if (!config.groups.own.empty()) options.resource.emplace_back("rung.group", config.groups.own);
  options.clock = &clock;
  log::info("traces", {{"endpoint", config.otel.endpoint},
                       {"service", config.otel.service},
                       {"sample_percent", std::llround(config.otel.sample * 100)}});
  return std::make_unique<otel::Exporter>(std::move(options));
}

// `exporter`: nullptr = no traces.
std::unique_ptr<otel::TaskTraces> make_traces(const Config& config, otel::Exporter* exporter) {
  if (exporter == nullptr) return nullptr;
  otel::TraceOptions options{config.otel.service, config.broker.prefix, config.otel.sample, "", 0};
  // Of several addresses it is not known here which one is in use.
  if (const std::vector<Url>& urls = config.broker.urls; urls.size() == 1) {
    constexpr int kPlain = 5672, kTls = 5671;
    const Url& url = urls.front();
    options.server = url.host;
    options.port = url.port != 0 ? url.port : url.scheme == "amqps" ? kTls : kPlain;
  }
  return std::make_unique<otel::TaskTraces>(std::move(options),
                                            [exporter](otel::Span span) { exporter->add(std::move(span)); });
}

// `rung run` from its start to its end. It owns what runs, so it has many members, and it only joins them:
// each does its work by itself.
class Sidecar {
 public:
  // REQUIRES: `clock` outlives it.
  Sidecar(std::string config_path, GroupChoice choice, Config config, std::unique_ptr<Broker> broker,
          const Clock& clock)
      : path_(std::move(config_path)),
        choice_(std::move(choice)),
        config_(std::move(config)),
        clock_(clock),
        stores_(config_.store, clock_, config_.lease * 2 / 3,  // minimum time left on a lease
                [this](const std::string& reason) { loop_.post([this, reason] { fatal(reason); }); }),
        broker_(std::move(broker)),
        exporter_(make_exporter(config_, clock_)),
        traces_(make_traces(config_, exporter_.get())),
        bridge_(
            loop_, *broker_, [this](auto on_status) { return store_threads(std::move(on_status)); },
            bridge_settings(config_, traces_.get()), config_.rules,
            [this] {
              fatal("another process runs as node '" + config_.node + "': give each its own `node:`");
            }),
        attach_watch_(
            loop_, config_.broker, [this] { return bridge_.queues_to_watch(); },
            [this](const auto& look) {
              bridge_.attachments_found(look);
              if (bridge_.watches_attachments_eagerly()) attach_watch_.look_within(kEagerCheck);
            }),
        term_(loop_, SIGTERM, [this] { drain("SIGTERM"); }),
        interrupt_(loop_, SIGINT, [this] { drain("SIGINT"); }),
        hangup_(loop_, SIGHUP, [this] { read_config(); }),
        reader_(
            loop_, [path = path_, choice = choice_] { return load_config(path, ConfigFor::sidecar, choice); },
            [this](LoadedConfig& loaded) { config_read(loaded); }),
        deadline_(loop_, [this] { cut_short(); }),
        connections_(loop_, [this] { answered(); }),
        start_watch_(loop_, [this] { watch_start(); }),
        service_(loop_, [this] { return status_line(bridge_.vitals(), bridge_.start_state()); }) {}

  int run() {
    log_settings(config_);
    bridge_.set_config(fingerprint(config_));
    auto started = listen();
    if (started) started = bridge_.start();
    if (started) {
      bridge_.on_connected([this] { attach_watch_.look_now(); });
      attach_watch_.start(config_.attachment_check);
      start_watch_.start(kWatchStart, kWatchStart);
      // Not when the servers are reached: a boot must not fail because one of them comes up later.
      loop_.post([this] {
        service_.ready();
        if (reload_wanted != 0) read_config();
      });
      loop_.run();
    } else {
      log::error("cannot start", {{"reason", started.error().message}});
      code_ = 1;
    }
    const bool answered = http_ == nullptr || http_->stop(Ms{200});  // without the loop there are no answers
    if (!bridge_.stop(ending_ ? left() : Ms{2000}) || !answered || reader_.is_reading()) {
      // A thread hangs in a call (a stalled server or file system): the process exits anyway, as after a
      // kill.
      log::warn("stopped without waiting for a blocked call", {{"exit", code_}});
      std::_Exit(code_);
    }
    log::write_suppressed();
    log::info("stopped", {{"exit", code_}});
    return code_;
  }

 private:
  Result<void> listen() {
    const HttpOptions& http = config_.http;
    if (!http.listen) return {};
    http::ApiParts parts;
    if (!http.oidc.issuer.empty()) {
      provider_ = std::make_unique<oidc::Provider>(http.oidc, clock_, [this](const std::string& problem) {
        loop_.post([this, problem] { bridge_.report_sign_in(problem); });
      });
      parts.sign_in = [this](std::string_view token) { return provider_->person_of(token); };
      parts.login = provider_.get();
    }
    parts.bridging.submit = [this](auto batch, auto done) {
      bridge_.submit(std::move(batch), std::move(done));
    };
    parts.bridging.change = [this](auto events, auto done) {
      bridge_.change(std::move(events), std::move(done));
    };
    parts.store = [this, most = api::Reads::query_timeout(http.timeout)] {
      return stores_.open_reader(most);
    };
    parts.ask_vitals = [this](auto answer) {
      loop_.post([this, answer = std::move(answer)] {
        bridge::Vitals vitals = bridge_.vitals();
        if (exporter_ != nullptr) {
          const otel::Exporter::Counts counts = exporter_->counts();
          vitals.spans = {counts.exported, counts.dropped};
        }
        if (provider_ != nullptr) vitals.sign_in_keys = provider_->counts();
        vitals.config = fingerprint(config_);
        answer(std::move(vitals));
      });
    };
    parts.rules = config_.rules;
    parts.reserved_headers = rabbit::reserved_headers();
    parts.index_headers = config_.store.index_headers;
    parts.cause_rules = config_.store.cause_rules;
    parts.version = RUNG_VERSION;
    parts.tokens = {http.tokens, http.read_tokens, http.people};
    parts.server = {http.listen->host,
                    http.listen->port,
                    http.cert,
                    http.key,
                    std::size_t(http.max_body) << 20,
                    http.connections,
                    http.connections_per_address,
                    http.timeout};
    parts.console = {
        .enabled = http.has_console(), .tls = !http.cert.empty(), .peers = http.peers, .url = http.url};
    const bool open = parts.tokens.empty() && parts.sign_in == nullptr;
    auto api = http::Api::start(std::move(parts), clock_);
    if (!api) return tl::unexpected(api.error());
    http_ = *std::move(api);
    log::info("HTTP API listening", {{"address", http.listen->host_port(0)},
                                     {"tls", !http.cert.empty()},
                                     {"token", open ? "not required" : "required"}});
    return {};
  }

  std::unique_ptr<bridge::StoreJobs> store_threads(bridge::StoreJobs::OnStatus on_status) {
    const int flow = std::max(config_.store.connections - 1, 1);  // one more is for the leases
    // A thread keeps its connection from one beat to the next, and closes it before the database does.
    const Ms idle = config_.lease * 2 / 5;
    return std::make_unique<bridge::StoreThreads>(
        loop_, [this] { return stores_.open(); }, flow, std::move(on_status), idle);
  }

  void fatal(const std::string& reason) {
    log::error("cannot continue", {{"reason", reason}});
    code_ = 1;
    loop_.stop();
  }

  // We wait without limit for a service that cannot be reached. One that has answered and refused us since
  // the start points to an error in the config or in the rights, which somebody should see.
  void watch_start() {
    const auto start = bridge_.start_state();
    if (start.done || ending_) return start_watch_.stop();
    if (start.refusal.empty()) return refused_since_.reset();
    if (!refused_since_) refused_since_ = clock_.boot();
    if (clock_.boot() - *refused_since_ < config_.start_wait) return;
    start_watch_.stop();
    fatal(start.refusal + " (for longer than start.wait: " + levels::format_duration(config_.start_wait) +
          ")");
  }

  Ms left() const { return std::max(ends_by_ - clock_.boot(), Ms{100}); }

  void drain(const char* why) {
    if (ending_) return;
    ending_ = true;
    ends_by_ = clock_.boot() + config_.drain;
    service_.stopping(config_.drain);
    log::info("draining", {{"because", why}, {"most", levels::format_duration(config_.drain)}});
    // Whatever hangs, in our code or in a library: the process exits in time.
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

  // The loop still answers earlier requests, also to say that we are done. So it stops with the last
  // connection; deadline_ bounds that.
  void answered() {
    if (http_ == nullptr || http_->connections() == 0) return loop_.stop();
    connections_.start(Ms{10});
  }

  // Tasks in progress stay as they are: their rows say `publishing`, and the next owner of the shards
  // publishes them again.
  void cut_short() {
    if (std::exchange(cut_short_, true) || drained_) return loop_.stop();
    log::warn("drain timed out: stopping as after a crash, nothing is lost");
    deadline_.start(config_.drain / 10);
    bridge_.give_back([this] { loop_.stop(); });
  }

  // SIGHUP.
  void read_config() {
    service_.reloading();
    reader_.request();
  }

  void config_read(LoadedConfig& loaded) {
    if (loaded.ok()) {
      reload(loaded);
      bridge_.report_config("");
    } else {
      for (const ConfigProblem& problem : loaded.problems)
        log::error("config rejected", {{"problem", problem.str()}});
      log::error("config has errors: the previous one stays in effect", {{"file", path_}});
      const std::size_t more = loaded.problems.size() - 1;
      bridge_.report_config("the last reload failed, and the previous config stays in effect: " +
                            loaded.problems.front().str() +
                            (more > 0 ? fmt::format(" (and {} more: rung check)", more) : ""));
    }
    if (!reader_.is_reading()) service_.ready();  // else another SIGHUP came meanwhile
  }

  void reload(LoadedConfig& loaded) {
    const std::string changes = describe_changes(config_, loaded.config);
    // Which error queues are consumed stays as it was at the start, and so does what becomes of their
    // messages.
    const bool other_sources = !loaded.config.broker.error_queues->same_sources(*config_.broker.error_queues);
    if (other_sources)
      loaded.config.rules = loaded.config.rules->with_error_queues(config_.broker.error_queues);
    bridge_.reload(loaded.config.rules, loaded.config.retention);
    if (http_ != nullptr) http_->reload(loaded.config.rules);
    const bool other_grants = !reload_secrets(loaded.config.http);
    log::configure(loaded.config.log.level, loaded.config.log.format);
    log::info("config reloaded: ladders, queues, tags, retention and log",
              {{"file", path_}, {"changes", changes.empty() ? "none" : changes}});
    warn_of_other_changes(loaded.config, other_sources, other_grants);
    config_.rules = loaded.config.rules;
    config_.retention = loaded.config.retention;
    config_.reloadable = loaded.config.reloadable;
    bridge_.set_config(fingerprint(config_));
  }

  // Passwords, and TLS files of broker and database, are read with each login. False: http.oidc.map and
  // clients need a restart.
  bool reload_secrets(const HttpOptions& loaded) {
    if (http_ == nullptr) return true;
    if (auto done = http_->reload_secrets({loaded.tokens, loaded.read_tokens, loaded.people}); !done)
      log::error("the previous HTTP certificate stays in use", {{"reason", done.error().message}});
    // Those of another issuer, client_id or roles_claim are for other tokens.
    if (provider_ == nullptr) return loaded.oidc.issuer.empty();
    const bool replaced = provider_->replace_grants(loaded.oidc);
    if (replaced && loaded.oidc.issuer.empty())
      log::warn("sign-in is disabled: http.oidc is no longer in the config", {});
    return replaced;
  }

  void warn_of_other_changes(const Config& loaded, bool other_sources, bool other_grants) const {
    std::vector<std::string> keys = keys_for_restart(config_, loaded);
    if (other_grants) keys.emplace_back("http.oidc.map");
    // The keys may be the same while the files that they name are not.
    const auto is_of_errors = [](const std::string& key) {
      return key.starts_with("error_queues") || key == "dialects";
    };
    if (other_sources && std::ranges::none_of(keys, is_of_errors)) keys.emplace_back("dialects");
    if (keys.empty()) return;
    log::warn("other changes in the config need a restart",
              {{"file", path_}, {"keys", fmt::format("{}", fmt::join(keys, ", "))}});
  }

  const std::string path_;
  const GroupChoice choice_;
  Config config_;
  const Clock& clock_;
  io::UvLoop loop_{clock_};
  RunStores stores_;
  std::unique_ptr<Broker> broker_;
  std::unique_ptr<otel::Exporter> exporter_;  // ends after the bridge: its destructor sends the last spans
  std::unique_ptr<otel::TaskTraces> traces_;
  bridge::Bridge bridge_;
  std::unique_ptr<oidc::Provider> provider_;  // none without http.oidc
  std::unique_ptr<http::Api> http_;           // none if nothing listens
  AttachWatch attach_watch_;
  io::Signal term_, interrupt_, hangup_;
  ConfigReader reader_;
  io::Timer deadline_;
  io::Timer connections_;  // polls until they are closed
  io::Timer start_watch_;
  io::ServiceManager service_;
  std::optional<BootMs> refused_since_;  // by a service that has not served us yet
  int code_ = 0;
  bool ending_ = false;
  bool cut_short_ = false;
  bool drained_ = false;  // the bridge has drained
  BootMs ends_by_{0};
};

}  // namespace

std::string status_line(const bridge::Vitals& vitals, const bridge::StartState& start) {
  if (!start.refusal.empty()) return escape_controls(start.refusal);
  const bool broker = vitals.broker_consuming && vitals.broker_publishing;
  if (!broker && !vitals.database) return "waiting for the broker and the database";
  if (!broker) return "waiting for the broker";
  if (!vitals.database) return "waiting for the database";
  std::string line = "serving, holds " + std::to_string(vitals.shards) + " shards";
  for (std::size_t i = 0; i < vitals.problems.size(); ++i)
    line += (i == 0 ? "; problems: " : ", ") + vitals.problems[i].name;
  return line;
}

void ConfigReader::request() {
  if (std::exchange(reading_, true)) {
    again_ = true;
    return;
  }
  std::thread([this] {
    auto loaded = std::make_shared<LoadedConfig>(read_());
    loop_.post([this, loaded = std::move(loaded)] {
      reading_ = false;
      // What changed since the read began is read before `done` says that all is read.
      if (std::exchange(again_, false)) request();
      done_(*loaded);
    });
  }).detach();
}

std::string own_url(const HttpOptions& http) {
  // These addresses mean "all of this machine's"; a client cannot connect to them everywhere.
  Url at = *http.listen;
  if (at.host == "0.0.0.0") at.host = "127.0.0.1";
  if (at.host == "::") at.host = "::1";
  return (http.cert.empty() ? "http://" : "https://") + at.host_port(at.port);
}

net::HttpReply ask_own(const HttpOptions& http, const std::string& path, Ms most) {
  const Ms half = std::max(most / 2, Ms{1});  // 0 would mean: no limit
  net::HttpClient client({.base = own_url(http), .verify = false, .connecting = half, .answering = half});
  return client.send("GET", path);
}

int run(const std::string& config_path, const GroupChoice& choice) {
  // Until the loop catches these signals there is nothing to drain.
  for (const int number : {SIGTERM, SIGINT}) std::signal(number, [](int) { _exit(0); });
  std::signal(SIGHUP, [](int) { reload_wanted = 1; });
  sigset_t none;  // a parent may have blocked them
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  LoadedConfig loaded = load_config(config_path, ConfigFor::sidecar, choice);
  for (const ConfigProblem& problem : loaded.problems) std::fprintf(stderr, "%s\n", problem.str().c_str());
  if (!loaded.ok()) return 1;
  log::configure(loaded.config.log.level, loaded.config.log.format);
  for (const ConfigProblem& warning : loaded.warnings) log::warn("config", {{"warning", warning.str()}});
#ifdef __GLIBC__
  // Memory of such bodies returns to the system when freed. glibc would raise the threshold with each of
  // them, up to 32 MB, and keep their memory.
  mallopt(M_MMAP_THRESHOLD, 256 * 1024);
#endif
  const SystemClock clock;
  auto broker = make_rabbit_broker(loaded.config.broker, clock);
  return Sidecar(config_path, choice, std::move(loaded.config), std::move(broker), clock).run();
}

}  // namespace rung::sidecar
