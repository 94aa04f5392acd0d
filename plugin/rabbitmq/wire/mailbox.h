// Passes items from other threads to a connection's thread, in batches. Unbounded: the callers bound what is
// in flight. Wakes nobody. Thread: put from any; take from the receiver's own.
#pragma once

#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

namespace rung::rabbit {

template <typename T>
class Mailbox {
 public:
  void put(std::vector<T> batch) {
    const std::lock_guard lock(mutex_);
    if (items_.empty()) {
      items_ = std::move(batch);
    } else {
      items_.insert(items_.end(), std::make_move_iterator(batch.begin()),
                    std::make_move_iterator(batch.end()));
    }
  }
  // Everything put so far. Valid until the next call.
  std::vector<T>& take() {
    taken_.clear();
    const std::lock_guard lock(mutex_);
    taken_.swap(items_);
    return taken_;
  }

 private:
  std::mutex mutex_;
  std::vector<T> items_;  // guarded by mutex_
  std::vector<T> taken_;  // the receiver's
};

}  // namespace rung::rabbit
