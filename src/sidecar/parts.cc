#include "src/sidecar/parts.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/io/log.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::sidecar {

namespace {

std::string host_and_pid() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(getpid());
}

std::string without_passwords(const std::string& first, const std::vector<std::string>& others) {
  std::string out = hide_password(first);
  for (const std::string& url : others) out += ", " + hide_password(url);
  return out;
}

}  // namespace

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

void log_settings(const Config& config) {
  log::info("rung starting", {{"version", RUNG_VERSION},
                              {"node", config.node},
                              {"broker", without_passwords(config.broker.url, config.broker.other_urls)},
                              {"database", without_passwords(config.store.url, config.store.other_urls)},
                              {"lease", levels::format_duration(config.lease)},
                              {"window", levels::format_duration(config.window)},
                              {"retention", config.retention ? levels::format_duration(*config.retention)
                                                             : std::string("off")}});
  const QueueGroups& groups = config.groups;
  if (!groups.empty()) {
    std::string queues;
    for (const std::string& name : groups.find(groups.own)->queues)
      queues += (queues.empty() ? "" : ", ") + name;
    log::info("group",
              {{"group", groups.own}, {"prefix", config.broker.prefix}, {"queues", std::move(queues)}});
  }
  if (!config.rules->targets().allow) {
    log::warn(
        "headers may name any queue or exchange as a message's target: restrict them with "
        "broker.targets.allow",
        {{"never", config.rules->targets().own + "*, amq.*"}});
  }
}

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
  again_ = since_.has_value();
  if (again_) return;
  since_ = loop_.clock().boot();
  std::thread([this] {
    auto loaded = std::make_shared<LoadedConfig>(read_());
    loop_.post([this, loaded = std::move(loaded)] {
      since_.reset();
      // What changed since the read began is read before `done` says that all is read.
      if (std::exchange(again_, false)) request();
      done_(*loaded);
    });
  }).detach();
}

std::string failed_reload(const LoadedConfig& loaded) {
  std::string text =
      "the last reload failed, and the previous config stays in effect: " + loaded.problems.front().str();
  if (const std::size_t more = loaded.problems.size() - 1; more > 0)
    text += " (and " + std::to_string(more) + " more: rung check)";
  return text;
}

std::string slow_reload(const std::string& path, Ms since) {
  return "the config is being read for " + levels::format_duration(since) +
         " without an end, and the previous one stays in effect: " + path +
         " or a file that it names is on a file system that does not answer";
}

namespace {

// All our connections use one address.
StoreOptions with_one_address(StoreOptions options, const Clock& clock) {
  options.causes = std::make_shared<CauseBook>(options.cause_rules);
  auto addresses = mysql_addresses(options, clock);
  if (!addresses) return options;  // open() reports why
  options.addresses = *std::move(addresses);
  options.addresses->on_change([](const std::string& address, const std::string& passed_over) {
    if (passed_over.empty()) return log::info("database connected", {{"address", address}});
    log::warn("database connected", {{"address", address}, {"passed_over", passed_over}});
  });
  return options;
}

void warn_of_risks(MysqlStore& store) {
  const auto variables = store.server_variables();
  if (!variables) return;  // `rung doctor` reports why
  for (const ServerRisk& risk : server_risks(*variables))
    log::warn("risky database server setting", {{"check", risk.name}, {"is", risk.what}, {"mend", risk.fix}});
}

}  // namespace

RunStores::RunStores(StoreOptions options, const Clock& clock, Ms silence,
                     std::function<void(const std::string&)> fatal)
    : options_(with_one_address(std::move(options), clock)),
      clock_(clock),
      silence_(silence),
      fatal_(std::move(fatal)) {}

Result<std::unique_ptr<MysqlStore>> RunStores::open() {
  return checked(open_mysql_store(options_, clock_, silence_));
}

Result<std::unique_ptr<MysqlStore>> RunStores::open_reader(Ms timeout) {
  StoreOptions options = options_;
  options.timeout = std::max(std::min(options.timeout, timeout), Ms{1000});
  return checked(open_mysql_store(options, clock_));
}

Result<std::unique_ptr<MysqlStore>> RunStores::checked(Result<std::unique_ptr<MysqlStore>> store) {
  if (!store) return store;
  const std::lock_guard lock(mutex_);
  if (ready_) return store;
  if (auto made = prepare(**store); !made) {
    // A missing right may be granted while we wait; start.wait limits the wait.
    if (!made.error().is_transient()) fatal_(made.error().message);
    return tl::unexpected(made.error());
  }
  ready_ = true;
  return store;
}

Result<void> RunStores::prepare(MysqlStore& store) const {
  warn_of_risks(store);
  if (!options_.migrate) return store.check_schema();
  const auto created = store.migrate();
  if (!created) return tl::unexpected(created.error());
  if (!created->empty()) log::info("schema migrated", {{"created", *created}});
  return {};
}

namespace {

otel::TraceOptions trace_options(const Config& config) {
  otel::TraceOptions options{config.otel.service, config.broker.prefix, config.otel.sample, "", 0};
  const auto url = parse_url(config.broker.url);
  // Of several addresses it is not known here which one is in use.
  if (url && config.broker.other_urls.empty()) {
    constexpr int kPlain = 5672, kTls = 5671;
    options.server = url->host;
    options.port = url->port != 0 ? url->port : url->scheme == "amqps" ? kTls : kPlain;
  }
  return options;
}

}  // namespace

std::string own_url(const HttpOptions& http) {
  // These addresses mean "all of this machine's"; a client cannot connect to them everywhere.
  std::string host = http.host;
  if (host == "0.0.0.0") host = "127.0.0.1";
  if (host == "::") host = "::1";
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  return (http.cert.empty() ? "http://" : "https://") + host + ":" + std::to_string(http.port);
}

otel::ExporterOptions exporter_options(const Config& config) {
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
  return options;
}

Traces::Traces(const Config& config, const Clock& clock) {
  if (config.otel.endpoint.empty()) return;
  otel::ExporterOptions options = exporter_options(config);
  options.clock = &clock;
  exporter_ = std::make_unique<otel::Exporter>(std::move(options));
  traces_ = std::make_unique<otel::TaskTraces>(
      trace_options(config),
      [exporter = exporter_.get()](otel::Span span) { exporter->add(std::move(span)); });
  log::info("traces", {{"endpoint", config.otel.endpoint},
                       {"service", config.otel.service},
                       {"sample_percent", std::llround(config.otel.sample * 100)}});
}

bridge::SpanCounts Traces::counts() const {
  if (exporter_ == nullptr) return {};
  const otel::Exporter::Counts counts = exporter_->counts();
  return {counts.exported, counts.dropped};
}

}  // namespace rung::sidecar
