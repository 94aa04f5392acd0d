// Store threads, a connection each. The loop hands them jobs and gets the answers back on the loop.
// A job that meets a transient error is tried again, on a new connection and with backoff, until it succeeds
// or the threads are stopped: an outage holds the flow, it doesn't break it. So is a job that the database
// refuses (a right, a table is missing), but for the upkeep's, which waits by itself. (Jobs may be repeated:
// see store.h.) Thread: submit() and the callbacks belong to the loop; work runs on a store thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/core/time.h"
#include "src/io/loop.h"
#include "src/store/store.h"

namespace rung::bridge {

// Rows of one transaction: beyond some hundred a batch gains nothing. Batches of one flow at a time: one with
// the database, one on the way.
inline constexpr std::size_t kMostInBatch = 500;
inline constexpr std::size_t kBytesInBatch = 8 * 1024 * 1024;  // bodies of one transaction
inline constexpr int kMostInFlight = 2;

// Leases must not wait behind a thousand inserts: they have a thread of their own. So has the upkeep, which
// may wait for a table; its connection is made with its first job.
enum class Lane { control, flow, upkeep };

class StoreThreads {
 public:
  struct Status {
    bool away = false;     // some thread waits to try its job again
    bool refused = false;  // the database answers, and refuses
    std::string reason;    // the latest; "" where nothing is away
  };

  // `on_status`: when the first thread has to wait, with each reason that was not yet said since then, and
  // when the last thread goes on. `idle`: a thread that had nothing to do for so long closes its connection,
  // before the database cuts it (open_mysql_store()'s `silence`, which must be longer).
  StoreThreads(io::Loop& loop, StoreFactory factory, int flow_threads,
               std::function<void(const Status&)> on_status, Ms idle = std::chrono::hours{24});
  ~StoreThreads();

  // `work(Store&) -> Result<T>` on a store thread, then `done(Result<T>)` on the loop. done sees a transient
  // error only where the threads were stopped, and Kind::refused on the upkeep's lane.
  template <typename T, typename Work, typename Done>
  void submit(Lane lane, Work work, Done done) {
    auto result = std::make_shared<std::optional<Result<T>>>();
    Job job;
    job.attempt = [work = std::move(work), result](Store& store) -> std::optional<Error> {
      result->emplace(work(store));
      if ((*result)->has_value()) return std::nullopt;
      return (*result)->error();
    };
    job.give_up = [result](const Error& error) { result->emplace(tl::unexpected<Error>(error)); };
    job.deliver = [done = std::move(done), result] { done(std::move(**result)); };
    enqueue(lane, std::move(job));
  }

  // When the database last did a job, or refused one; when this was made, where it never did.
  BootMs answered() const { return {answered_ms_.load(std::memory_order_relaxed)}; }

  // Takes no new turn at a job; what is blocked in a call ends by its own time-out. Does not wait.
  void stop();
  // Whether all threads ended within `most`. Call after stop().
  bool join(Ms most);

 private:
  struct Job {
    std::function<std::optional<Error>(Store&)> attempt;
    std::function<void(const Error&)> give_up;
    std::function<void()> deliver;
  };
  struct Queue {
    std::deque<Job> jobs;
    std::condition_variable ready;
  };

  Queue& queue_of(Lane lane);
  void enqueue(Lane lane, Job job);
  void run(Lane lane);
  void perform(Lane lane, Job& job, std::unique_ptr<Store>& store);
  std::optional<Error> attempt_once(Job& job, std::unique_ptr<Store>& store);
  void waits(bool& mine, const Error& error);
  void goes_on(bool& mine);
  bool pause(Ms length);  // false: stopped meanwhile

  io::Loop& loop_;
  const StoreFactory factory_;
  const std::function<void(const Status&)> on_status_;
  const Ms idle_;

  std::mutex mutex_;
  Queue control_, flow_, upkeep_;  // guarded by mutex_
  bool stopping_ = false;          // guarded by mutex_
  int threads_away_ = 0;           // guarded by mutex_
  std::set<std::string> said_;     // reasons of this outage; guarded by mutex_
  bool refused_ = false;           // as on_status was told last; guarded by mutex_
  int running_ = 0;                // guarded by mutex_
  std::condition_variable stopped_;
  std::atomic<std::int64_t> answered_ms_{boot_now().ms};
  std::vector<std::thread> threads_;
};

}  // namespace rung::bridge
