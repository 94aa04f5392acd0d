// libuv in RAII: the loop and signals.
// Thread: the one that calls run() for everything here; post() and clock(): any.
#pragma once

#include <uv.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "src/io/loop.h"

namespace rung::io {

class UvLoop final : public Loop {
 public:
  // REQUIRES: `clock` outlives it.
  explicit UvLoop(const Clock& clock);
  // REQUIRES: every Timer and Signal on it is destroyed.
  ~UvLoop() override;
  UvLoop(const UvLoop&) = delete;
  UvLoop& operator=(const UvLoop&) = delete;

  void run();  // returns after stop()
  void stop();

  const Clock& clock() const override { return clock_; }
  // The loop takes whole batches; only a post to an empty queue wakes it up.
  void post(std::function<void()> task) override;
  std::unique_ptr<Alarm> make_alarm(std::function<void()> fire) override;
  Ms timer_clock() const override;

  uv_loop_t* raw() { return &loop_; }

 private:
  static void on_wake(uv_async_t* async);

  const Clock& clock_;
  uv_loop_t loop_{};
  uv_async_t wake_{};
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;  // guarded by mutex_
};

// A libuv handle that outlives its owner until libuv has closed it (stop, uv_close, free in the callback).
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
  Handle* get() const { return handle_; }

 private:
  Handle* handle_;
};

class Signal {
 public:
  Signal(UvLoop& loop, int number, std::function<void()> caught);

 private:
  std::function<void()> caught_;
  OwnedHandle<uv_signal_t> signal_;
};

}  // namespace rung::io
