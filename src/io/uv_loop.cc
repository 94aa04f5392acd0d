#include "src/io/uv_loop.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace rung::io {
namespace {

// Out of memory or of file descriptors: nothing works without these.
void must(int result, const char* what) {
  if (result != 0) throw std::runtime_error(std::string(what) + ": " + uv_strerror(result));
}

class UvAlarm final : public Loop::Alarm {
 public:
  UvAlarm(uv_loop_t* loop, std::function<void()> fire) : loop_(loop), fire_(std::move(fire)) {
    timer_.get()->data = this;
    must(uv_timer_init(loop, timer_.get()), "uv_timer_init");
  }
  void start(Ms delay, Ms repeat) override {
    uv_update_time(loop_);  // libuv caches the time when a turn begins: after long work it is stale
    uv_timer_start(
        timer_.get(),
        [](uv_timer_t* timer) {
          const auto fire = static_cast<UvAlarm*>(timer->data)->fire_;  // a copy: it may destroy the Timer
          fire();
        },
        static_cast<std::uint64_t>(delay.count() > 0 ? delay.count() : 0),
        static_cast<std::uint64_t>(repeat.count()));
  }
  void stop() override { uv_timer_stop(timer_.get()); }
  bool active() const override { return uv_is_active(reinterpret_cast<uv_handle_t*>(timer_.get())) != 0; }

 private:
  uv_loop_t* const loop_;
  const std::function<void()> fire_;
  OwnedHandle<uv_timer_t> timer_;
};

}  // namespace

UvLoop::UvLoop(const Clock& clock) : clock_(clock) {
  must(uv_loop_init(&loop_), "uv_loop_init");
  wake_.data = this;
  must(uv_async_init(&loop_, &wake_, on_wake), "uv_async_init");
}

UvLoop::~UvLoop() {
  uv_close(reinterpret_cast<uv_handle_t*>(&wake_), nullptr);
  uv_run(&loop_, UV_RUN_DEFAULT);  // lets the close callbacks run
  uv_loop_close(&loop_);
}

void UvLoop::run() { uv_run(&loop_, UV_RUN_DEFAULT); }
void UvLoop::stop() { uv_stop(&loop_); }

void UvLoop::post(std::function<void()> task) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = posted_.empty();
    posted_.push_back(std::move(task));
  }
  if (was_empty) uv_async_send(&wake_);
}

std::unique_ptr<Loop::Alarm> UvLoop::make_alarm(std::function<void()> fire) {
  return std::make_unique<UvAlarm>(&loop_, std::move(fire));
}

Ms UvLoop::timer_clock() const { return Ms{static_cast<std::int64_t>(uv_hrtime() / 1'000'000)}; }

void UvLoop::on_wake(uv_async_t* async) {
  auto* self = static_cast<UvLoop*>(async->data);
  std::vector<std::function<void()>> batch;
  {
    const std::lock_guard lock(self->mutex_);
    batch.swap(self->posted_);
  }
  for (auto& task : batch) task();
}

Signal::Signal(UvLoop& loop, int number, std::function<void()> caught) : caught_(std::move(caught)) {
  signal_.get()->data = this;
  must(uv_signal_init(loop.raw(), signal_.get()), "uv_signal_init");
  const auto catch_it = [](uv_signal_t* signal, int) { static_cast<Signal*>(signal->data)->caught_(); };
  must(uv_signal_start(signal_.get(), catch_it, number), "uv_signal_start");
}

}  // namespace rung::io
