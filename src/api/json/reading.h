// Reads a JSON object that another process of Rung has written: the way back from the to_json() of this room.
// Unlike fields.h, which tells people what is wrong with theirs, it stops at the first field that cannot be
// right, and passes over fields that it does not know: the other process may be newer. Thread: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/api/json/json.h"
#include "src/core/base/ids.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/task/task.h"

namespace rung::api {

class Reading {
 public:
  // `what`: what it should be, for the error. REQUIRES: `json` outlives it.
  Reading(const Json& json, std::string what);

  // A missing value is null: "", none, 0 or false.
  const Json& part(std::string_view name) const;
  std::string text(std::string_view name);
  // A number out of its range is an error. Counts are bounded so that their sums fit.
  std::int64_t integer(std::string_view name, std::int64_t least = 0, std::int64_t most = kMostCounted);
  int small_integer(std::string_view name) { return static_cast<int>(integer(name, 0, INT32_MAX)); }
  // Of "..._ms". Small negative ones: the clocks of two queries.
  Ms duration(std::string_view name) { return Ms{integer(name, -kLongestMs, kLongestMs)}; }
  double number(std::string_view name);
  bool flag(std::string_view name);
  std::optional<EpochMs> time(std::string_view name);
  TaskId id(std::string_view name);
  std::optional<Silence> silence(std::string_view name);
  // `fallback`: for a missing value. An unknown word is an error.
  template <typename Word>
  Word word(std::string_view name, std::optional<Word> (*from)(std::string_view), Word fallback) {
    const std::string text = this->text(name);
    const auto known = text.empty() ? std::optional(fallback) : from(text);
    if (!known) wrong(name);
    return known.value_or(fallback);
  }

  void wrong(std::string_view name);
  // The value, unless something was wrong.
  template <typename T>
  Result<T> done(T value) const {
    if (wrong_.empty()) return value;
    return permanent("not as Rung writes it: " + what_ + wrong_);
  }

 private:
  static constexpr std::int64_t kMostCounted = 1'000'000'000'000;
  static constexpr std::int64_t kLongestMs = 1LL << 42;  // 139 years

  const Json& json_;
  const std::string what_;
  std::string wrong_;  // ".queue"; "" = nothing yet
};

// The values of a list; null = none.
Result<std::vector<const Json*>> items_of(const Json& list);

// The objects of a list, each read by `read`.
template <typename Read>
auto read_list(const Json& list, const Read& read)
    -> Result<std::vector<typename decltype(read(list))::value_type>> {
  const auto items = items_of(list);
  if (!items) return tl::unexpected(items.error());
  std::vector<typename decltype(read(list))::value_type> all;
  for (const Json* item : *items) {
    auto value = read(*item);
    if (!value) return tl::unexpected(value.error());
    all.push_back(*std::move(value));
  }
  return all;
}

}  // namespace rung::api
