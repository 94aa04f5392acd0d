// A few connections to the database for what people ask; the flow's are left alone.
// Thread: any. A call ends within its call_timeout (and a second): a quarter of it for a connection to be
// free, the rest for the database, which is what the connections' own time-out has to be (query_timeout()).
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "src/core/clock.h"
#include "src/store/store.h"

namespace rung::http {

class Reads {
 public:
  // REQUIRES: `clock` outlives it.
  Reads(StoreFactory factory, int most, Ms call_timeout, const Clock& clock)
      : factory_(std::move(factory)), most_(most), call_timeout_(call_timeout), clock_(clock) {}

  static Ms query_timeout(Ms call_timeout) { return call_timeout * 3 / 4; }

  // `work(Store&) -> Result<T>`. A connection that broke while nobody used it is made anew, once: the work is
  // done again then.
  template <typename Work>
  auto run(const Work& work) -> decltype(work(std::declval<Store&>())) {
    const BootMs began = clock_.boot();
    bool was_idle = false;
    auto result = attempt(work, was_idle);
    // What broke says so at once; what hangs would hang again.
    const bool broke = !result && result.error().is_transient() && clock_.boot() - began < kAtOnce;
    return broke && was_idle ? attempt(work, was_idle) : result;
  }

  // Never done again: for what would then be there twice. What is idle is tried out before.
  template <typename Work>
  auto run_once(const Work& work) -> decltype(work(std::declval<Store&>())) {
    if (auto there = run([](QueryStore& store) { return store.now(); }); !there)
      return tl::unexpected(there.error());
    bool was_idle = false;
    return attempt(work, was_idle);
  }

 private:
  static constexpr Ms kAtOnce{1000};

  template <typename Work>
  auto attempt(const Work& work, bool& was_idle) -> decltype(work(std::declval<Store&>())) {
    auto store = take();
    if (!store) return tl::unexpected(store.error());
    was_idle = *store != nullptr;
    if (!was_idle) {
      auto made = factory_();
      if (!made) {
        give_back(nullptr);
        Error error = made.error();
        if (error.kind == Error::Kind::permanent)
          error.kind = Error::Kind::refused;  // not the caller's mistake
        return tl::unexpected(std::move(error));
      }
      *store = *std::move(made);
    }
    auto result = work(**store);
    if (!result && result.error().is_transient()) {
      store->reset();
      forget_idle();  // what broke this one broke them all, as a rule
    }
    give_back(*std::move(store));
    return result;
  }

  // nullptr: one may be made.
  Result<std::unique_ptr<Store>> take();
  void give_back(std::unique_ptr<Store> store);
  void forget_idle();

  const StoreFactory factory_;
  const int most_;
  const Ms call_timeout_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable free_;
  int out_ = 0;                               // guarded by mutex_
  std::vector<std::unique_ptr<Store>> idle_;  // guarded by mutex_
};

// Work on a thread of its own, one at a time: who asks for it waits for a while, not for as long as it takes.
class BackgroundTask {
 public:
  ~BackgroundTask();
  // Begins `work` unless the last one still runs; true where none runs any more after `most`.
  bool run(std::function<void()> work, Ms most);

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool runs_ = false;   // guarded by mutex_
  std::thread thread_;  // guarded by mutex_
};

}  // namespace rung::http
