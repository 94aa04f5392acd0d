// What a reload leaves for others to see, in the sidecar: the report for `rung reload`, and the sentence of
// the problem "config". Thread: the loop's.
#pragma once

#include <string>

#include "src/cli/config_reader.h"
#include "src/cli/reload_report.h"
#include "src/config/config.h"

namespace rung::cli {

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
