// What is in an answer of the API. A value that is missing, or of another kind, is empty: another release may
// have written it. Thread: pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "src/api/json/json.h"
#include "src/core/base/time.h"
#include "src/core/task/task.h"

namespace rung::cli {

using Json = api::Json;

const Json& part_of(const Json& json, std::string_view name);
std::string text_of(const Json& json, std::string_view name);
std::int64_t number_of(const Json& json, std::string_view name);
double real_of(const Json& json, std::string_view name);
bool flag_of(const Json& json, std::string_view name);
std::optional<EpochMs> time_of(const Json& json, std::string_view name);

// Of a task.
State state_of(const Json& task);
TaskId id_of(const Json& task);

}  // namespace rung::cli
