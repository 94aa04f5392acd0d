// libuv in RAII: the loop, timers, signals, and post(), the one door into the loop from other threads.
// Thread: everything here belongs to the thread that calls run(), post() excepted, which any thread may call.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "src/core/time.h"

namespace rung::io {

class Loop {
 public:
  Loop();
  // REQUIRES: every Timer and Signal on it is gone.
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  void run();  // returns after stop()
  void stop();

  // Runs `task` on the loop, in the order of posting. Whole batches are swapped out, one wake-up an edge.
  // What is posted is bounded by those who post: a broker by its prefetch and unconfirmed window, a store
  // thread by the jobs it was given. After run() has returned, what is still posted is dropped by ~Loop.
  void post(std::function<void()> task);

  uv_loop_t* raw() { return &loop_; }

 private:
  static void on_wake(uv_async_t* async);

  uv_loop_t loop_{};
  uv_async_t wake_{};
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
};

// One libuv handle that outlives its owner until libuv lets go of it (stop, uv_close, free in the callback).
template <typename Handle>
class OwnedHandle {
 public:
  OwnedHandle() : handle_(new Handle{}) {}
  ~OwnedHandle() {
    uv_close(reinterpret_cast<uv_handle_t*>(handle_),
             [](uv_handle_t* closed) { delete reinterpret_cast<Handle*>(closed); });
  }
  OwnedHandle(const OwnedHandle&) = delete;
  OwnedHandle& operator=(const OwnedHandle&) = delete;
  Handle* get() { return handle_; }

 private:
  Handle* handle_;
};

class Timer {
 public:
  Timer(Loop& loop, std::function<void()> fire);
  // Fires once after `delay`, then every `repeat` where that is above 0. Starting again replaces.
  void start(Ms delay, Ms repeat = Ms{0});
  void stop();
  bool active();

 private:
  Loop& loop_;
  std::function<void()> fire_;
  OwnedHandle<uv_timer_t> timer_;
};

class Signal {
 public:
  Signal(Loop& loop, int number, std::function<void()> caught);

 private:
  std::function<void()> caught_;
  OwnedHandle<uv_signal_t> signal_;
};

}  // namespace rung::io
