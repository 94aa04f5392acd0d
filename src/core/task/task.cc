#include "src/core/task/task.h"

namespace rung {
namespace {

// In the order of the enums, which is the order of the ENUM columns. NOTE: append only.
constexpr std::array<std::string_view, 7> kStates = {"scheduled", "publishing", "awaiting", "succeeded",
                                                     "parked",    "cancelled",  "discarded"};
constexpr std::array<std::string_view, 2> kKinds = {"retry", "delay"};
constexpr std::array<std::string_view, 5> kOutcomes = {"pending", "succeeded", "failed", "timed_out",
                                                       "returned"};
constexpr std::array<std::string_view, 2> kFinishers = {"reported", "presumed"};

template <typename Enum, std::size_t n>
std::string_view word_of(const std::array<std::string_view, n>& words, Enum value) {
  const auto i = static_cast<std::size_t>(value);
  return i >= 1 && i <= n ? words[i - 1] : std::string_view{};
}

}  // namespace

std::string_view to_word(State s) { return s == State::unknown ? "unknown" : word_of(kStates, s); }
std::string_view to_word(Kind k) { return word_of(kKinds, k); }
std::string_view to_word(Outcome o) { return word_of(kOutcomes, o); }
std::string_view to_word(FinishedBy f) { return word_of(kFinishers, f); }
std::optional<State> state_from(std::string_view word) { return from_word<State>(kStates, word); }
std::optional<Kind> kind_from(std::string_view word) { return from_word<Kind>(kKinds, word); }
std::optional<Outcome> outcome_from(std::string_view word) { return from_word<Outcome>(kOutcomes, word); }
std::optional<FinishedBy> finished_by_from(std::string_view word) {
  if (word.empty()) return FinishedBy::nobody;
  return from_word<FinishedBy>(kFinishers, word);
}

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

std::string not_stored_text(const Task& task) {
  return "the database has no body of this message, and nothing can send it: " + task.last_error;
}

}  // namespace rung
