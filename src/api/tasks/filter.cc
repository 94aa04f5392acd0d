#include "src/api/tasks/filter.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/core/base/time.h"
#include "src/core/base/utf8.h"

namespace rung::api {
namespace {

using Text = std::string Filter::*;
using Time = std::optional<EpochMs> Filter::*;

// REQUIRES: the value is a valid one.
void set(Filter& filter, const Condition& condition, const std::string& name, const std::string& value) {
  if (const auto* text = std::get_if<Text>(&condition.member)) {
    filter.** text = value;
  } else if (const auto* time = std::get_if<Time>(&condition.member)) {
    filter.** time = from_rfc3339(written_time(value));
  } else if (name == "state") {
    for (const std::string& word : split_words(value)) filter.states.push_back(*from_word<State>(word));
  } else if (name == "kind") {
    filter.kind = from_word<Kind>(value);
  } else if (name == "outcome_unknown") {
    filter.silence_held = true;
  } else {
    filter.headers.emplace_back(name.substr(kHeaderParam.size()), value);
  }
}

std::string written_states(const Filter& f) {
  std::string states;
  for (const State state : f.states) states.append(states.empty() ? "" : ",").append(to_word(state));
  return states;
}

}  // namespace

Filter filter_of(const Pairs& conditions) {
  Filter filter;
  for (const auto& [name, value] : conditions) {
    const auto* const condition = std::ranges::find_if(
        kConditions, [&known = name](const Condition& one) { return is_named(one.param, known); });
    if (condition != kConditions.end()) set(filter, *condition, name, value);
  }
  return filter;
}

Filter read_filter(const Pairs& conditions, std::string_view prefix, FieldErrors& errors) {
  const std::size_t before = errors.size();
  check_params(conditions, kConditionParams, errors, prefix, "condition");
  return errors.size() == before ? filter_of(conditions) : Filter{};
}

Filter read_filter(const Json& json, FieldErrors& errors) {
  if (!json.is_object()) {
    errors.push_back({"filter", "must be an object: {\"queue\": \"orders\", \"state\": \"parked\"}"});
    return {};
  }
  Pairs conditions;
  for (const auto& [name, value] : json.items()) {
    if (errors.size() > kMostTold) break;
    if (value.is_string()) {
      conditions.emplace_back(name, value.get<std::string>());
    } else {
      errors.push_back({"filter." + clean_utf8(name, 60), "must be a string"});
    }
  }
  if (json.empty()) {
    errors.push_back({"filter",
                      "an empty filter means every task: name a queue, a tag, a state or a time; known "
                      "conditions: " +
                          known_params(kConditionParams)});
  }
  return read_filter(conditions, "filter.", errors);
}

Json filter_json(const Filter& f) {
  Json json = Json::object();
  const auto put = [&](std::string_view name, std::string_view value) {
    if (!value.empty()) json[std::string(name)] = value;
  };
  for (const Condition& condition : kConditions) {
    const std::string_view name = condition.param.name;
    if (const auto* text = std::get_if<Text>(&condition.member)) {
      put(name, f.**text);
    } else if (const auto* time = std::get_if<Time>(&condition.member)) {
      if (f.**time) put(name, to_rfc3339(*(f.**time)));
    } else if (name == "state") {
      put(name, written_states(f));
    } else if (name == "kind") {
      put(name, f.kind ? to_word(*f.kind) : "");
    } else if (name == "outcome_unknown") {
      put(name, f.silence_held ? "true" : "");
    } else {
      for (const auto& [header, value] : f.headers) put(std::string(kHeaderParam) + header, value);
    }
  }
  return json;
}

}  // namespace rung::api
