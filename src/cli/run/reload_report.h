// The outcome of the last reload, in a file of $RUNTIME_DIRECTORY (systemd's RuntimeDirectory=): `rung
// reload` waits for it, so that `systemctl reload` fails when the reload did. Thread: any; write() takes its
// time, so not on the loop.
#pragma once

#include <string>
#include <vector>

#include "src/cli/shared/config_reader.h"
#include "src/config/config.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung::cli {

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

}  // namespace rung::cli
