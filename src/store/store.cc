#include "src/store/store.h"

#include <array>
#include <variant>

#include "src/core/utf8.h"

namespace rung {
namespace {

constexpr std::array<std::string_view, 4> kActions{"cancel", "fire", "redrive", "discard"};
constexpr std::array<std::string_view, 4> kStates{"running", "paused", "aborted", "done"};

template <typename Enum, std::size_t N>
std::optional<Enum> from(const std::array<std::string_view, N>& words, std::string_view word) {
  for (std::size_t i = 0; i < N; ++i) {
    if (words[i] == word) return static_cast<Enum>(i + 1);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_word(BulkAction action) { return kActions[static_cast<std::size_t>(action) - 1]; }
std::string_view to_word(BulkState state) { return kStates[static_cast<std::size_t>(state) - 1]; }
std::optional<BulkAction> bulk_action_from(std::string_view word) { return from<BulkAction>(kActions, word); }
std::optional<BulkState> bulk_state_from(std::string_view word) { return from<BulkState>(kStates, word); }

Filter of_bulk(const NewBulk& bulk) {
  Filter filter = bulk.filter;
  filter.below.reset();
  if (!filter.state && filter.states.empty()) {
    const bool parked = bulk.action == BulkAction::redrive || bulk.action == BulkAction::discard;
    filter.state = parked ? State::parked : State::scheduled;
  }
  return filter;
}

Event event_of(const Bulk& bulk, TaskId id) {
  Event event{id, event::Cancel{bulk.reason}, ByHand{bulk.who, {}}};
  if (bulk.action == BulkAction::fire) event.what = event::Fire{};
  if (bulk.action == BulkAction::redrive) event.what = event::Redrive{bulk.elsewhere, bulk.even_reported};
  if (bulk.action == BulkAction::discard) event.what = event::Discard{bulk.reason};
  return event;
}

}  // namespace rung
