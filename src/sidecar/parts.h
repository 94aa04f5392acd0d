// The parts of `rung run` besides the bridge and the API. Thread: main's, unless stated otherwise.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "src/bridge/bridge.h"
#include "src/bridge/vitals.h"
#include "src/config/config.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/io/loop.h"
#include "src/otel/exporter.h"
#include "src/otel/task_traces.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::sidecar {

// The bridge's settings, from the config. `tracer`: nullptr = no traces.
bridge::BridgeSettings bridge_settings(const Config& config, bridge::Tracer* tracer);
// Logs the settings that matter, at the start.
void log_settings(const Config& config);

// The line that `systemctl status` shows for a sidecar: what it waits for, what is wrong, or that it serves.
// One short sentence without line ends.
std::string status_line(const bridge::Vitals& vitals, const bridge::StartState& start);

// Reads the config for a reload, on a thread of its own: the config, and the files that it names, may be on a
// file system that hangs, and the loop has leases to keep. Thread: the loop's.
class ConfigReader {
 public:
  // `read` runs on the thread; `done`, after each read, on the loop. REQUIRES: while it is being read,
  // neither this object nor the loop ends: a process whose read hangs ends without destructors.
  ConfigReader(io::Loop& loop, std::function<LoadedConfig()> read, std::function<void(LoadedConfig&)> done)
      : loop_(loop), read_(std::move(read)), done_(std::move(done)) {}
  ConfigReader(const ConfigReader&) = delete;
  ConfigReader& operator=(const ConfigReader&) = delete;

  // Reads the config. While it is being read: once more afterwards, however often this is called.
  void request();
  // Since when it is being read; nullopt: it is not.
  const std::optional<BootMs>& reading_since() const { return since_; }

 private:
  io::Loop& loop_;
  const std::function<LoadedConfig()> read_;
  const std::function<void(LoadedConfig&)> done_;
  std::optional<BootMs> since_;
  bool again_ = false;
};

// The sentence of the problem "config":
// "the last reload failed, and the previous config stays in effect: rung.yaml:3:5: ...".
std::string failed_reload(const LoadedConfig& loaded);
// "rung.yaml has been read for 30 s without end ...".
std::string slow_reload(const std::string& path, Ms since);

// Database connections of `rung run`. The first one creates or checks the schema; an error that waiting
// cannot fix ends the sidecar. Thread: any.
class RunStores {
 public:
  // `silence`: as in open_mysql_store(), for the flow. `fatal`: called by any thread. REQUIRES: `clock`
  // outlives it.
  RunStores(StoreOptions options, const Clock& clock, Ms silence,
            std::function<void(const std::string&)> fatal);

  // For the flow: these connections hold locks that others wait for.
  Result<std::unique_ptr<MysqlStore>> open();
  // For user queries: nobody waits for their locks, and no caller waits `timeout` or longer.
  Result<std::unique_ptr<MysqlStore>> open_reader(Ms timeout);

 private:
  Result<std::unique_ptr<MysqlStore>> checked(Result<std::unique_ptr<MysqlStore>> store);
  Result<void> prepare(MysqlStore& store) const;

  const StoreOptions options_;
  const Clock& clock_;
  const Ms silence_;
  const std::function<void(const std::string&)> fatal_;
  std::mutex mutex_;
  bool ready_ = false;  // guarded by mutex_
};

// The traces of `rung run`: none without otel.endpoint. Its destructor sends the last spans, within 1 s.
// Thread: main's; tracer() is for the loop's.
class Traces {
 public:
  // REQUIRES: `clock` outlives it.
  Traces(const Config& config, const Clock& clock);

  bridge::Tracer* tracer() { return traces_.get(); }  // nullptr: traces are off
  bridge::SpanCounts counts() const;

 private:
  std::unique_ptr<otel::Exporter> exporter_;
  std::unique_ptr<otel::TaskTraces> traces_;
};

// Where a sidecar with this config is reached from its own machine: "http://127.0.0.1:8025". Thread: any.
// REQUIRES: http.listen is set.
std::string own_url(const HttpOptions& http);

// For the exporter, and for `rung doctor`.
otel::ExporterOptions exporter_options(const Config& config);

}  // namespace rung::sidecar
