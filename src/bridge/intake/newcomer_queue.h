// Messages that wait to be inserted. Those from error queues come last: a backlog there must not delay fresh
// dead letters. It waits in the broker as long as more comes in fresh than the database takes.
// Thread: the loop's.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "src/bridge/intake/newcomer.h"
#include "src/core/base/require.h"

namespace rung::bridge {

class NewcomerQueue {
 public:
  void push(Newcomer item) {
    auto& line = item.delivery->inlet == Inlet::error ? from_error_queues_ : fresh_;
    line.push_back(std::move(item));
  }
  bool empty() const { return fresh_.empty() && from_error_queues_.empty(); }
  std::size_t size() const { return fresh_.size() + from_error_queues_.size(); }
  // REQUIRES, of these two: not empty().
  const Newcomer& front() const {
    RUNG_REQUIRE(!empty());
    return (fresh_.empty() ? from_error_queues_ : fresh_).front();
  }
  Newcomer pop() {
    RUNG_REQUIRE(!empty());
    auto& line = fresh_.empty() ? from_error_queues_ : fresh_;
    Newcomer item = std::move(line.front());
    line.pop_front();
    return item;
  }
  std::size_t bytes() const {  // of bodies
    std::size_t all = 0;
    for (const auto* line : {&fresh_, &from_error_queues_}) {
      for (const Newcomer& item : *line) all += item.delivery->message.body.size();
    }
    return all;
  }
  void forget_before(const IntakeSession& session) {
    for (auto* line : {&fresh_, &from_error_queues_})
      std::erase_if(*line, [&](const Newcomer& item) { return item.delivery->tag.session.before(session); });
  }
  void clear() {
    fresh_.clear();
    from_error_queues_.clear();
  }

 private:
  std::deque<Newcomer> fresh_, from_error_queues_;
};

}  // namespace rung::bridge
