// rung check --queue: which entry the queue follows. With --explain: what would happen to a failure, and
// which rule decides. Thread: main's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/cli/shared/command.h"

namespace rung::cli {

struct ExplainOptions {
  bool explain = false;
  std::string queue, error, type, reason, tag, age;
  std::vector<std::string> headers;  // NAME=VALUE
  int attempt = 0;                   // retries so far, the failed one included; 0 = the first delivery failed
};

// Adds --explain, and the options that need it.
void add_explain_options(CLI::App& check, ExplainOptions& options);
int explain(const Common& common, const ExplainOptions& options);
// --queue alone: which entry of the config the queue follows.
int explain_queue(const Common& common, const ExplainOptions& options);

}  // namespace rung::cli
