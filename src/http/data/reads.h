// A few database connections for user queries, separate from the flow's.
// Thread: any. A call ends within its call_timeout (plus a second): a quarter of it to wait for a free
// connection, the rest for the database. So the connections' own timeout must be query_timeout().
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "src/core/base/clock.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::http {

class Reads {
 public:
  // REQUIRES: `clock` outlives it.
  Reads(MysqlStoreFactory factory, int most, Ms call_timeout, const Clock& clock)
      : factory_(std::move(factory)), most_(most), call_timeout_(call_timeout), clock_(clock) {}

  static Ms query_timeout(Ms call_timeout) { return call_timeout * 3 / 4; }

  // `work(MysqlStore&) -> Result<T>`. A connection that broke while idle is replaced, once, and the work is
  // repeated.
  template <typename Work>
  auto run(const Work& work) -> decltype(work(std::declval<MysqlStore&>())) {
    const BootMs began = clock_.boot();
    bool was_idle = false;
    auto result = attempt(work, was_idle);
    // A broken connection fails at once; a hanging one would hang again.
    const bool broke = !result && result.error().is_transient() && clock_.boot() - began < kAtOnce;
    return broke && was_idle ? attempt(work, was_idle) : result;
  }

  // Never repeated: for work that would otherwise be done twice. An idle connection is tested first.
  template <typename Work>
  auto run_once(const Work& work) -> decltype(work(std::declval<MysqlStore&>())) {
    if (auto there = run([](MysqlStore& store) { return store.now(); }); !there)
      return tl::unexpected(there.error());
    bool was_idle = false;
    return attempt(work, was_idle);
  }

 private:
  static constexpr Ms kAtOnce{1000};

  template <typename Work>
  auto attempt(const Work& work, bool& was_idle) -> decltype(work(std::declval<MysqlStore&>())) {
    auto store = take();
    if (!store) return tl::unexpected(store.error());
    was_idle = *store != nullptr;
    if (!was_idle) {
      auto made = factory_();
      if (!made) {
        give_back(nullptr);
        Error error = made.error();
        if (error.kind == Error::Kind::permanent)
          error.kind = Error::Kind::refused;  // not the caller's error
        return tl::unexpected(std::move(error));
      }
      *store = *std::move(made);
    }
    try {
      auto result = work(**store);
      if (!result && result.error().is_transient()) {
        store->reset();
        forget_idle();  // its fault usually broke them all
      }
      give_back(*std::move(store));
      return result;
    } catch (...) {  // no memory: its place must not be lost
      give_back(nullptr);
      throw;
    }
  }

  // nullptr: the caller may open one.
  Result<std::unique_ptr<MysqlStore>> take();
  void give_back(std::unique_ptr<MysqlStore> store);
  void forget_idle();

  const MysqlStoreFactory factory_;
  const int most_;
  const Ms call_timeout_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable free_;
  int out_ = 0;                                    // guarded by mutex_
  std::vector<std::unique_ptr<MysqlStore>> idle_;  // guarded by mutex_
};

// Runs work on its own thread, one piece at a time: a caller waits for a limited time, not until the work is
// done.
class BackgroundTask {
 public:
  ~BackgroundTask();
  // Starts `work` unless the previous work is still running; true if none is running after `most`.
  bool run(std::function<void()> work, Ms most);

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool runs_ = false;   // guarded by mutex_
  std::thread thread_;  // guarded by mutex_
};

}  // namespace rung::http
