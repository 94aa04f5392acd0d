// A consumer on a thread of its own that fails all that it gets.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace rung::test {

// Takes from a queue and fails everything; records each delivery. Reconnects when the broker is back.
class FailingConsumer {
 public:
  enum class How {
    reject,   // dead-lettered by the broker
    publish,  // to <prefix>.failed with a confirm, then acked: outlives a kill -9 of the broker
  };
  struct Seen {
    std::string body, id;
    std::int64_t attempt = 0;  // 0 = the first delivery, not by Rung
    std::int64_t at = 0;       // wall ms
  };
  FailingConsumer(std::string queue, std::string failed, How how);
  ~FailingConsumer();
  FailingConsumer(const FailingConsumer&) = delete;
  FailingConsumer& operator=(const FailingConsumer&) = delete;

  std::vector<Seen> seen() const;
  std::size_t count() const { return count_; }  // deliveries by Rung

 private:
  void run();
  void serve();

  const std::string queue_, failed_;
  const How how_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> count_{0};
  mutable std::mutex mutex_;
  std::vector<Seen> seen_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace rung::test
