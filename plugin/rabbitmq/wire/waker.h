// Wakes a thread that sleeps in poll(): for new work, to drop the connection, or to stop.
// Thread: wake(), drop(), stop() and now() from any; the rest from the thread that sleeps.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "src/core/base/clock.h"

namespace rung::rabbit {

class Waker {
 public:
  // REQUIRES: `clock` outlives it.
  explicit Waker(const Clock& clock) : clock_(clock), fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Waker() { close(fd_); }
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  const Clock& clock() const { return clock_; }
  BootMs now() const { return clock_.boot(); }

  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = write(fd_, &one, sizeof one);
  }
  // The thread should have ended by `deadline`.
  void stop(BootMs deadline) {
    deadline_.store(deadline.ms, std::memory_order_relaxed);
    stopping_.store(true, std::memory_order_release);
    wake();
  }
  // Orders the thread to drop the connection; dropped() returns the order once.
  void drop(std::string reason) {
    {
      const std::lock_guard lock(mutex_);
      drop_why_ = std::move(reason);
    }
    wake();
  }
  std::optional<std::string> dropped() {
    const std::lock_guard lock(mutex_);
    return std::exchange(drop_why_, std::nullopt);
  }
  bool stopping() const { return stopping_.load(std::memory_order_acquire); }
  BootMs deadline() const { return {deadline_.load(std::memory_order_relaxed)}; }

  // Sleeps until `fd` (-1 = none) is ready for `events`, wake() was called, or `until` is reached. Returns
  // what `fd` is ready for. Consumes the wake-up: after each call, check everything that may have woken you.
  short sleep(int fd, short events, BootMs until) {
    pollfd fds[2] = {{.fd = fd_, .events = POLLIN, .revents = 0}, {.fd = fd, .events = events, .revents = 0}};
    const std::int64_t left = (until - now()).count();
    poll(fds, fd >= 0 ? 2 : 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    if (fds[0].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto n = read(fd_, &count, sizeof count);
    }
    return fds[1].revents;
  }

 private:
  const Clock& clock_;
  const int fd_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> deadline_{0};  // BootMs
  std::mutex mutex_;
  std::optional<std::string> drop_why_;  // guarded by mutex_
};

}  // namespace rung::rabbit
