#include "src/core/task/task.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace rung {
Target normalised(Target target) {
  if (target.queue.empty() && target.exchange.empty()) target.queue = std::move(target.routing_key);
  if (target.queue.empty()) return target;
  return {std::move(target.queue), "", ""};
}

std::string error_line(std::string_view type, std::string_view error) {
  std::string_view line = error.substr(0, error.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (type.empty() || line.starts_with(type)) return std::string(line);
  return std::string(type).append(line.empty() ? "" : ": ").append(line);
}

Target target_of(const Task& task) {
  if (!task.queue.empty() || !task.by_exchange) return {task.queue, "", ""};
  return {"", task.exchange, task.routing_key};
}

std::string not_stored_text(const std::string& last_error) {
  return "the database has no body of this message, and nothing can send it: " + last_error;
}

std::string_view retry_reason(const Task& task) {
  if (task.first_failed_at.ms == 0) return {};
  if (task.error_type == "returned") return "returned";
  if (task.error_type == "timed_out") return "silent";
  constexpr std::string_view kDead = "dead-lettered: ";  // as read_failure() writes it
  constexpr std::array<std::string_view, 3> kReasons{"expired", "maxlen", "delivery_limit"};
  const std::string_view error = task.last_error;
  if (!error.starts_with(kDead)) return "rejected";
  const std::string_view rest = error.substr(kDead.size());
  const auto found = std::ranges::find_if(
      kReasons, [&](std::string_view r) { return rest.starts_with(std::string(r) + " "); });
  return found == kReasons.end() ? "rejected" : *found;
}

std::string add_earlier(std::string_view origin_json, const EarlierContent& earlier) {
  nlohmann::json origin = nlohmann::json::parse(origin_json, nullptr, false);
  if (!origin.is_object()) origin = nlohmann::json::object();  // empty, or changed by hand
  nlohmann::json& list = origin[kEarlierContent];
  if (!list.is_array()) list = nlohmann::json::array();
  if (list.size() >= kMostEarlier) list.erase(1);
  // As texts: nested, they could be deeper than any header may be.
  list.push_back(
      {{"attempt", earlier.attempt}, {"properties", earlier.properties}, {"headers", earlier.headers}});
  return origin.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string without_content(std::string_view origin_json) {
  nlohmann::json origin = nlohmann::json::parse(origin_json, nullptr, false);
  if (!origin.is_object()) return {};
  origin.erase(kEarlierContent);
  origin.erase(std::string(header::kToken));
  // Headers that no JSON object can hold.
  const auto is_token = [](const nlohmann::json& pair) {
    return pair.is_array() && !pair.empty() && pair[0] == header::kToken;
  };
  if (const auto table = origin.find("!table"); table != origin.end() && table->is_array())
    table->erase(std::remove_if(table->begin(), table->end(), is_token), table->end());
  return origin.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool keeps_routing_key(const Task& task, std::string_view prefix) {
  if (task.queue.empty() || task.first_failed_at.ms == 0) return false;
  if (task.exchange.empty() || task.routing_key == task.queue) return false;
  // Published to us by a consumer or as a delay: the original key is unknown.
  if (task.exchange.starts_with(prefix) && task.exchange.substr(prefix.size()).starts_with(".")) return false;
  // The row stores UTF-8. A key that was not UTF-8 contains U+FFFD now and is a different key.
  return task.routing_key.find("\xEF\xBF\xBD") == std::string::npos;
}

}  // namespace rung
