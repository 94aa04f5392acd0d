// Bytes of memory that several requests may hold together. Thread: any.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

#include "src/core/time.h"

namespace rung::http {

inline constexpr std::size_t kSmallBody = 64 * 1024;  // such a request is never refused for want of memory

class Budget {
 public:
  // What one request holds. Given back at the end of its life.
  class Share {
   public:
    explicit Share(Budget& budget) : budget_(&budget) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share();
    // Holds `bytes` more, after a wait of `most_wait` at most; false: there is no room, and nothing has
    // changed. One request alone gets what it wants.
    bool grow(std::int64_t bytes, Ms most_wait = Ms{0});
    // The same without a limit: for what is too small to be refused, and counts all the same.
    void add(std::int64_t bytes);
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
