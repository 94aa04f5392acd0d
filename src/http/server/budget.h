// A memory budget in bytes, shared by several requests. Thread: any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "src/core/base/time.h"

namespace rung::http {

// Smaller requests and responses are never refused for lack of memory.
inline constexpr std::size_t kSmallBody = 64 * 1024;

class Budget {
 public:
  // The share of one request. Returned when it is destroyed.
  class Share {
   public:
    explicit Share(Budget& budget) : budget_(&budget) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() {
      if (bytes_ == 0) return;
      const std::lock_guard lock(budget_->mutex_);
      budget_->held_ -= bytes_;
      budget_->given_back_.notify_all();
    }
    // Takes `bytes` more, after waiting at most `most_wait`; false: no room, and nothing has changed. A
    // request that is alone gets all it wants.
    bool grow(std::int64_t bytes, Ms most_wait = Ms{0}) {
      std::unique_lock lock(budget_->mutex_);
      const auto room = [&] { return budget_->held_ == bytes_ || budget_->held_ + bytes <= budget_->most_; };
      if (!budget_->given_back_.wait_for(lock, most_wait, room)) return false;
      budget_->held_ += bytes;
      bytes_ += bytes;
      return true;
    }
    // The same without a limit: for amounts that are too small to be refused, but still count.
    void add(std::int64_t bytes) {
      const std::lock_guard lock(budget_->mutex_);
      budget_->held_ += bytes;
      bytes_ += bytes;
    }
    std::int64_t bytes() const { return bytes_; }

   private:
    Budget* budget_;
    std::int64_t bytes_ = 0;
  };

  explicit Budget(std::int64_t most) : most_(most) {}

 private:
  const std::int64_t most_;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::int64_t held_ = 0;  // guarded by mutex_
};

}  // namespace rung::http
