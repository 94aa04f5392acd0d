// A reload reads the config, and leaves its outcome in a file of $RUNTIME_DIRECTORY (systemd's
// RuntimeDirectory=): `rung reload` waits for it, so that `systemctl reload` fails when the reload did.
// Thread: any, unless stated otherwise; write_report() takes its time, so not on the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/core/base/clock.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/io/loop.h"

namespace rung::sidecar {

struct ReloadReport {
  int pid = 0;
  BootMs started{0};                  // when the config began to be read, by this machine's boot clock
  std::vector<std::string> problems;  // none: the config applies
  std::string changes;                // "" = none
  std::vector<std::string> restart;   // changed keys that need a restart
};

// The file's path; "": $RUNTIME_DIRECTORY is not set.
std::string reload_report_path();
// Replaces the file at once as a whole. Errors are logged.
void write_report(const std::string& path, const ReloadReport& report);
// Permanent error if there is none, or if it is not one of ours.
Result<ReloadReport> read_report(const std::string& path);

// Reads the config for a reload, on a thread of its own: the config, and the files that it names, may be on a
// file system that hangs, and the loop has leases to keep.
// Thread: the loop's. The destructor does not wait for a read that hangs: its thread ends with the process.
class ConfigReader {
 public:
  using Read =
      std::function<LoadedConfig()>;  // runs on the thread; REQUIRES: it refers to nothing of the caller
  struct Outcome {
    LoadedConfig loaded;
    BootMs started{0};  // the files may have changed since
  };
  // `done`: on the loop, after each read.
  ConfigReader(io::Loop& loop, Read read, std::function<void(Outcome&)> done);
  ~ConfigReader();
  ConfigReader(const ConfigReader&) = delete;
  ConfigReader& operator=(const ConfigReader&) = delete;

  // Reads the config. While it is being read: once more afterwards, however often this is called.
  void request();
  // Since when it is being read; nullopt: it is not.
  const std::optional<BootMs>& reading_since() const { return since_; }

 private:
  struct Link;  // outlives this object, for the thread
  void start();
  void finished(Outcome& outcome);

  io::Loop& loop_;
  const Read read_;
  const std::function<void(Outcome&)> done_;
  const std::shared_ptr<Link> link_;
  std::optional<BootMs> since_;
  bool again_ = false;
};

// What a reload leaves for others to see, in the sidecar: the report for `rung reload`, and the sentence of
// the problem "config". Thread: the loop's.
// "the last reload failed, and the previous config stays in effect: rung.yaml:3:5: ...".
std::string failed_reload(const LoadedConfig& loaded);
// "rung.yaml has been read for 30 s without end ...".
std::string slow_reload(const std::string& path, Ms since);
// The report of this read; `changes` and `restart` if it was applied.
ReloadReport report_of(const ConfigReader::Outcome& outcome, std::string changes,
                       std::vector<std::string> restart);
// Writes it on a thread of its own, if there is a $RUNTIME_DIRECTORY.
void publish(const ReloadReport& report);

}  // namespace rung::sidecar
