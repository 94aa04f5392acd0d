// The outcome of the last reload, in a file of $RUNTIME_DIRECTORY (systemd's RuntimeDirectory=): `rung
// reload` waits for it, so that `systemctl reload` fails when the reload did. Thread: any; write() takes its
// time, so not on the loop.
#pragma once

#include <string>
#include <vector>

#include "src/core/result.h"
#include "src/core/time.h"

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

}  // namespace rung::cli
