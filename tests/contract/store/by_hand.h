// What the tests of changes by people share.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/contract/store/world.h"

namespace rung::test {

inline Event by_hand(TaskId id, Happening what, std::optional<std::uint32_t> if_version = {}) {
  return {id, std::move(what), ByHand{"ann@desk (test)", if_version}};
}

class ByHandTest : public StoreContract {
 protected:
  Decision change(TaskId id, Happening what, std::optional<std::uint32_t> if_version = {}) {
    const Event event = by_hand(id, std::move(what), if_version);
    return store_->apply(std::span(&event, 1), Fence{}, decider()).at(0);
  }
  NewBulk cancel_all(const std::string& queue = "orders") {
    NewBulk bulk;
    bulk.filter.queue = queue;
    bulk.filter_text = "queue=" + queue;
    bulk.reason = "season is over";
    bulk.who = "ann@desk (test)";
    return bulk;
  }
  // Runs one step of `bulk` as `runner`; returns its number of tasks.
  std::size_t step(const Bulk& bulk, const std::string& runner, int limit) {
    const Bulk now = *store_->bulk(bulk.id);
    const BulkStep how{bulk.id, runner, now.last, now.rate, true};
    const auto ids = store_->bulk_next(how, limit);
    if (ids.empty()) return 0;
    std::vector<Event> events;
    for (const TaskId id : ids) events.push_back(event_of(bulk, id));
    return store_->apply(events, Fence{}, decider(), &how).size();
  }
};

}  // namespace rung::test
