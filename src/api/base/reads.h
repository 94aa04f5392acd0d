// What the handlers read and change: connections to the database for users' queries, separate from the
// flow's, the way to the bridge, and counts that take long. Thread: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/api/base/message.h"
#include "src/bridge/changes/inserts.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/store/mysql/mysql_store.h"

namespace rung::api {

// A few connections. A call ends within its call_timeout (plus a second): a quarter of it to wait for a free
// connection, the rest for the database. So the connections' own timeout must be query_timeout().
class Reads {
 public:
  // REQUIRES: `clock` outlives it.
  Reads(MysqlStoreFactory factory, int most, Ms call_timeout, const Clock& clock)
      : factory_(std::move(factory)), most_(most), call_timeout_(call_timeout), clock_(clock) {}

  static Ms query_timeout(Ms call_timeout) { return call_timeout * 3 / 4; }

  // `work(MysqlStore&)`; a StoreError that it throws is a Problem from here on. A connection that broke while
  // idle is replaced, once, and the work is repeated.
  template <typename Work>
  auto read(const Work& work) {
    const BootMs began = clock_.boot();
    bool was_idle = false;
    try {
      return attempt(work, was_idle);
    } catch (const Problem& e) {
      // A broken connection fails at once; a hanging one would hang again.
      if (!was_idle || !is_transient(e) || clock_.boot() - began >= kAtOnce) throw;
    }
    return attempt(work, was_idle);
  }
  // Never repeated: for work that would otherwise be done twice. An idle connection is tested first.
  template <typename Work>
  auto read_once(const Work& work) {
    read([](MysqlStore& store) { return store.now(); });
    bool was_idle = false;
    return attempt(work, was_idle);
  }
  // As read(); errors of the store are not thrown.
  template <typename Work>
  auto result_of(const Work& work) -> Result<decltype(work(std::declval<MysqlStore&>()))> {
    try {
      return read(work);
    } catch (const Problem& e) {
      if (!e.error) throw;
      return tl::unexpected(*e.error);
    }
  }

 private:
  static constexpr Ms kAtOnce{1000};
  static bool is_transient(const Problem& e) { return e.error && e.error->is_transient(); }

  template <typename Work>
  auto attempt(const Work& work, bool& was_idle) {
    std::unique_ptr<MysqlStore> store = take();
    was_idle = store != nullptr;
    try {
      if (!was_idle) store = open();
      auto result = work(*store);
      give_back(std::move(store));
      return result;
    } catch (const StoreError& e) {
      if (e.error.is_transient()) {
        store.reset();
        forget_idle();  // its fault usually broke them all
      }
      give_back(std::move(store));
      throw Problem(e.error);
    } catch (...) {  // its place must not be lost
      give_back(std::move(store));
      throw;
    }
  }

  // nullptr: the caller may open one.
  std::unique_ptr<MysqlStore> take();
  std::unique_ptr<MysqlStore> open() const;
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

// `ask(done)` starts asynchronous work, which calls `done` with its answer at most once, on any thread.
// Returns none if that takes longer than `most`; the answer may still come later.
template <typename T, typename Ask>
std::optional<T> answer_within(Ms most, const Ask& ask) {
  const auto promise = std::make_shared<std::promise<T>>();
  auto answer = promise->get_future();
  ask([promise](T value) { promise->set_value(std::move(value)); });
  if (answer.wait_for(most) != std::future_status::ready) return std::nullopt;
  return answer.get();
}

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

struct TaskCount {
  std::vector<QueueStat> queues;  // by queue and state, as in retry_by_queue
  // When the count of the ended ones began, by the callers' `now`. None: not all are counted yet, so there
  // are more.
  std::optional<EpochMs> ended_at;
};

// Counts tasks by queue and state. Open tasks are counted each time. Ended ones are most rows, and a hundred
// million of them take minutes: they are counted in pieces, and callers get the last complete count. Thread:
// any. One caller counts ended tasks at a time; another one waits for it as long as it would itself count.
class TaskCounter {
 public:
  static constexpr int kPiece = 50'000;              // tasks; 30 to 100 ms of the database
  static constexpr Ms kAll{std::chrono::hours{24}};  // enough to count all

  // `piece`: for tests. REQUIRES: `clock` outlives it.
  explicit TaskCounter(const Clock& clock, int piece = kPiece) : clock_(clock), piece_(piece) {}

  // Counts ended tasks until all are counted, or for `most` and a piece more: with few of them the result is
  // of now, with many several calls make the next complete count. Throws the store's errors.
  TaskCount count(MysqlStore& store, EpochMs now, Ms most);

 private:
  using Ended = std::map<std::pair<std::string, State>, std::int64_t>;
  void count_ended(MysqlStore& store, EpochMs now, BootMs until);
  bool count_piece(MysqlStore& store);  // whether it was the last one

  const Clock& clock_;
  const int piece_;
  std::mutex mutex_;
  std::condition_variable free_;
  bool counting_ = false;            // guarded by mutex_
  Ended so_far_;                     // guarded by mutex_
  Ended whole_;                      // the last complete count; guarded by mutex_
  std::optional<EpochMs> ended_at_;  // when it began; guarded by mutex_
  EndedPlace place_;                 // of the one who counts
  std::optional<EpochMs> begun_at_;  // of the one who counts; none: a count begins
};

// An answer that many ask for, read on a thread of its own: anew if it is older than `kept`, and than `share`
// times what reading it took. Those who ask meanwhile wait for it, as long as they like.
class BriefCache {
 public:
  // REQUIRES: `clock` outlives it.
  BriefCache(const Clock& clock, Ms kept, int share) : clock_(clock), kept_(kept), share_(share) {}
  ~BriefCache() {
    if (thread_.joinable()) thread_.join();
  }
  BriefCache(const BriefCache&) = delete;
  BriefCache& operator=(const BriefCache&) = delete;

  // The last answer; none: there was none within `most`. An error is the answer until the next one asks.
  // REQUIRES: what `read` uses outlives the cache.
  std::optional<Result<std::string>> get(std::function<Result<std::string>()> read, Ms most);

 private:
  const Clock& clock_;
  const Ms kept_;
  const int share_;
  std::mutex mutex_;
  std::condition_variable ended_;
  // Guarded by mutex_.
  bool reads_ = false;
  std::optional<Result<std::string>> last_;
  BootMs until_{0};
  std::thread thread_;
};

}  // namespace rung::api
