#include "src/io/loop.h"

#include <utility>

namespace rung::io {

Loop::Loop() {
  uv_loop_init(&loop_);
  wake_.data = this;
  uv_async_init(&loop_, &wake_, on_wake);
}

Loop::~Loop() {
  uv_close(reinterpret_cast<uv_handle_t*>(&wake_), nullptr);
  uv_run(&loop_, UV_RUN_DEFAULT);  // lets the close callbacks run
  uv_loop_close(&loop_);
}

void Loop::run() { uv_run(&loop_, UV_RUN_DEFAULT); }
void Loop::stop() { uv_stop(&loop_); }

void Loop::post(std::function<void()> task) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = posted_.empty();
    posted_.push_back(std::move(task));
  }
  if (was_empty) uv_async_send(&wake_);
}

void Loop::on_wake(uv_async_t* async) {
  auto* self = static_cast<Loop*>(async->data);
  std::vector<std::function<void()>> batch;
  {
    const std::lock_guard lock(self->mutex_);
    batch.swap(self->posted_);
  }
  for (auto& task : batch) task();
}

Timer::Timer(Loop& loop, std::function<void()> fire) : loop_(loop), fire_(std::move(fire)) {
  timer_.get()->data = this;
  uv_timer_init(loop.raw(), timer_.get());
}

void Timer::start(Ms delay, Ms repeat) {
  uv_update_time(loop_.raw());  // libuv's time is that of the turn's begin: after long work it is behind
  uv_timer_start(
      timer_.get(),
      [](uv_timer_t* timer) {
        const auto fire = static_cast<Timer*>(timer->data)->fire_;  // a copy: it may end the Timer
        fire();
      },
      static_cast<std::uint64_t>(delay.count() > 0 ? delay.count() : 0),
      static_cast<std::uint64_t>(repeat.count()));
}

void Timer::stop() { uv_timer_stop(timer_.get()); }
bool Timer::active() { return uv_is_active(reinterpret_cast<uv_handle_t*>(timer_.get())) != 0; }

Signal::Signal(Loop& loop, int number, std::function<void()> caught) : caught_(std::move(caught)) {
  signal_.get()->data = this;
  uv_signal_init(loop.raw(), signal_.get());
  uv_signal_start(
      signal_.get(), [](uv_signal_t* signal, int) { static_cast<Signal*>(signal->data)->caught_(); }, number);
}

}  // namespace rung::io
