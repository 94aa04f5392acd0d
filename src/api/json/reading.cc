#include "src/api/json/reading.h"

#include <nlohmann/json.hpp>

#include "levels/duration.h"
#include "src/core/base/rfc3339.h"

namespace rung::api {

Reading::Reading(const Json& json, std::string what) : json_(json), what_(std::move(what)) {
  if (!json_.is_object()) wrong_ = " is no object";
}

const Json& Reading::part(std::string_view name) const {
  static const Json kNull;
  if (!json_.is_object()) return kNull;
  const auto it = json_.find(name);
  return it == json_.end() ? kNull : *it;
}

std::string Reading::text(std::string_view name) {
  const Json& value = part(name);
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_null()) wrong(name);
  return {};
}

std::int64_t Reading::integer(std::string_view name, std::int64_t least, std::int64_t most) {
  const Json& value = part(name);
  const bool fits = !value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX;
  const std::int64_t number = value.is_number_integer() && fits ? value.get<std::int64_t>() : least - 1;
  if (number >= least && number <= most) return number;
  if (!value.is_null()) wrong(name);
  return 0;
}

double Reading::number(std::string_view name) {
  const Json& value = part(name);
  if (value.is_number()) return value.get<double>();
  if (!value.is_null()) wrong(name);
  return 0;
}

bool Reading::flag(std::string_view name) {
  const Json& value = part(name);
  if (value.is_boolean()) return value.get<bool>();
  if (!value.is_null()) wrong(name);
  return false;
}

std::optional<EpochMs> Reading::time(std::string_view name) {
  const std::string text = this->text(name);
  if (text.empty()) return std::nullopt;
  const auto at = from_rfc3339(text);
  if (!at) wrong(name);
  return at;
}

TaskId Reading::id(std::string_view name) {
  const std::string text = this->text(name);
  const auto id = text.empty() ? std::optional(TaskId{}) : TaskId::parse(text);
  if (!id) wrong(name);
  return id.value_or(TaskId{});
}

std::optional<Silence> Reading::silence(std::string_view name) {
  const Json& value = part(name);
  if (value.is_null()) return std::nullopt;
  Reading inner(value, "");
  for (const auto& [key, means] : {std::pair{"presumed_after", Silence::Means::success},
                                   std::pair{"reported_within", Silence::Means::failure}}) {
    const auto after = levels::parse_duration(inner.text(key));
    if (after) return Silence{means, *after};
  }
  wrong(name);
  return std::nullopt;
}

void Reading::wrong(std::string_view name) {
  if (wrong_.empty()) wrong_ = "." + std::string(name);
}

Result<std::vector<const Json*>> items_of(const Json& list) {
  std::vector<const Json*> items;
  if (!list.is_array() && !list.is_null()) return permanent("not as Rung writes it: a list is none");
  for (const Json& item : list) items.push_back(&item);
  return items;
}

}  // namespace rung::api
