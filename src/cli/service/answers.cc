#include "src/cli/service/answers.h"

#include "src/core/base/time.h"

namespace rung::cli {

const Json& part_of(const Json& json, std::string_view name) {
  static const Json kNull;
  if (!json.is_object()) return kNull;
  const auto found = json.find(name);
  return found == json.end() ? kNull : *found;
}

std::string text_of(const Json& json, std::string_view name) {
  const Json& value = part_of(json, name);
  return value.is_string() ? value.get<std::string>() : std::string();
}

double real_of(const Json& json, std::string_view name) {
  const Json& value = part_of(json, name);
  return value.is_number() ? value.get<double>() : 0;
}

std::int64_t number_of(const Json& json, std::string_view name) {
  constexpr double kMost = 1LL << 52;  // sums of some fit, and times of so many ms
  const double value = real_of(json, name);
  return value > -kMost && value < kMost ? static_cast<std::int64_t>(value) : 0;
}

bool flag_of(const Json& json, std::string_view name) {
  const Json& value = part_of(json, name);
  return value.is_boolean() && value.get<bool>();
}

std::optional<EpochMs> time_of(const Json& json, std::string_view name) {
  return from_rfc3339(text_of(json, name));
}

State state_of(const Json& task) { return state_from(text_of(task, "state")).value_or(State::unknown); }
TaskId id_of(const Json& task) { return TaskId::parse(text_of(task, "retry_id")).value_or(TaskId{}); }

}  // namespace rung::cli
