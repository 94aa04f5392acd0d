#include "src/cli/run/run_status.h"

#include "src/cli/shared/text.h"

namespace rung::cli {

std::string status_line(const bridge::Vitals& vitals, const bridge::StartState& start) {
  if (!start.refusal.empty()) return one_line(start.refusal);
  const bool broker = vitals.broker_consuming && vitals.broker_publishing;
  if (!broker && !vitals.database) return "waiting for the broker and the database";
  if (!broker) return "waiting for the broker";
  if (!vitals.database) return "waiting for the database";
  std::string line = "serving, holds " + std::to_string(vitals.shards) + " shards";
  for (std::size_t i = 0; i < vitals.problems.size(); ++i)
    line += (i == 0 ? "; problems: " : ", ") + vitals.problems[i].name;
  return line;
}

}  // namespace rung::cli
