#include "src/core/base/health.h"

#include <nlohmann/json.hpp>

namespace rung {

using Json = nlohmann::ordered_json;

std::string problems_to_json(const std::vector<HealthProblem>& problems) {
  Json json = Json::array();
  for (const HealthProblem& p : problems) {
    json.push_back(
        {{"name", p.name}, {"detail", p.detail}, {"since", p.since.ms}, {"not_ready", p.not_ready}});
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<HealthProblem> problems_from_json(std::string_view text) {
  std::vector<HealthProblem> problems;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_array()) return problems;
  for (const Json& item : json) {
    if (!item.is_object()) continue;
    problems.push_back({item.value("name", ""), item.value("detail", ""),
                        EpochMs{item.value("since", std::int64_t{0})}, item.value("not_ready", false)});
  }
  return problems;
}

}  // namespace rung
