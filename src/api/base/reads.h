// What the handlers read and change: connections to the database for users' queries, separate from the
// flow's, and the way to the bridge. Thread: any.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/bridge/changes/inserts.h"
#include "src/core/base/clock.h"
#include "src/core/base/result.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

// An error of the store, or of the bridge: it ends the request, and Router::answer() makes the response of
// it.
struct StoreError : std::exception {
  explicit StoreError(Error of, bool was_asked = false) : error(std::move(of)), asked(was_asked) {}
  const char* what() const noexcept override { return error.message.c_str(); }
  Error error;
  bool asked;  // what was asked for is wrong: 400
};
// The value; throws StoreError if there is none.
template <typename T>
T need(Result<T> result) {
  if (!result) throw StoreError(std::move(result).error());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// A few connections. A call ends within its call_timeout (plus a second): a quarter of it to wait for a free
// connection, the rest for the database. So the connections' own timeout must be query_timeout().
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

  // The same for work that throws its errors.
  template <typename Work>
  auto result_of(const Work& work) {
    return run(caught(work));
  }
  // The same; throws the error.
  template <typename Work>
  auto read(const Work& work) {
    return need(result_of(work));
  }
  template <typename Work>
  auto read_once(const Work& work) {
    return need(run_once(caught(work)));
  }

 private:
  static constexpr Ms kAtOnce{1000};

  template <typename Work>
  static auto caught(const Work& work) {
    return [&work](MysqlStore& store) -> Result<decltype(work(store))> {
      try {
        return work(store);
      } catch (const StoreError& e) {
        if (e.asked) throw;  // the connection is good
        return tl::unexpected(e.error);
      }
    };
  }

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
    } catch (const StoreError&) {
      give_back(*std::move(store));
      throw;
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

// Bridge::submit and Bridge::change.
struct Bridging {
  std::function<void(std::vector<Submission>, bridge::Inserts::SubmitDone)> submit;
  std::function<void(std::vector<Event>, bridge::Inserts::ChangeDone)> change;
};

// Hands new tasks and changes to the bridge and waits for the answer. That uses the bridge's leases, fences
// and heap, and concurrent calls share a transaction.
class Writes {
 public:
  // `reply_timeout`: how long to wait for an answer.
  Writes(Bridging bridging, Ms reply_timeout)
      : bridging_(std::move(bridging)), reply_timeout_(reply_timeout) {}

  // Transient error: either the outcome is unknown (no answer in time), or nothing happened (too much is
  // waiting already, the instance is stopping); the text says which.
  Result<std::vector<bridge::Submitted>> submit(std::vector<Submission> batch);
  // `more`: bytes of the messages in the events.
  Result<std::vector<Decision>> change(std::vector<Event> events, std::int64_t more = 0);

 private:
  const Bridging bridging_;
  const Ms reply_timeout_;
  // Bytes of unanswered calls, including those whose caller no longer waits. Shared with the callbacks.
  std::shared_ptr<std::atomic<std::int64_t>> waiting_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

// An answer that many ask for: read anew at most once a second, and less often where reading takes long.
// Those who ask meanwhile wait for it.
class BriefCache {
 public:
  static constexpr Ms kFor{1000};
  // Reading takes at most this share of the time.
  static constexpr int kShare = 10;

  // REQUIRES: `clock` outlives it.
  explicit BriefCache(const Clock& clock) : clock_(clock) {}

  // `read() -> Result<T>`. Also after an error it is not read again at once: it may take long.
  template <typename Read>
  Result<std::string> get(const Read& read) {
    const std::lock_guard lock(mutex_);
    const BootMs began = clock_.boot();
    if (!last_ || began >= until_) {
      last_ = read();
      const BootMs ended = clock_.boot();
      until_ = ended + std::max(kFor, (ended - began) * kShare);
    }
    return *last_;
  }

 private:
  const Clock& clock_;
  std::mutex mutex_;
  std::optional<Result<std::string>> last_;  // guarded by mutex_
  BootMs until_{0};                          // guarded by mutex_
};

}  // namespace rung::api
