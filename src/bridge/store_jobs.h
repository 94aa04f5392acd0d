// What the bridge asks of the database: jobs, whose answers come back on the loop. StoreThreads does them on
// threads, a connection each; the simulator when it likes to.
//
// A job that meets a transient error is tried again, on a new connection and with backoff, until it succeeds
// or stop() was called: an outage holds the flow, it doesn't break it. So is a job that the database refuses
// (a right, a table is missing), but for the upkeep's, which waits by itself. (Jobs may be repeated: see
// store.h.) Thread: submit() and the callbacks belong to the loop; work may run on another thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/core/clock.h"
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

class StoreJobs {
 public:
  struct Status {
    bool away = false;     // some thread waits to try its job again
    bool refused = false;  // the database answers, and refuses
    std::string reason;    // the latest; "" where nothing is away
  };

  // Called on the loop: when the first job has to wait, with each reason that was not yet said since then,
  // and when the last one goes on.
  using OnStatus = std::function<void(const Status&)>;

  virtual ~StoreJobs() = default;

  // `work(Store&) -> Result<T>` then `done(Result<T>)` on the loop. done sees a transient
  // error only where stop() was called, and Kind::refused on the upkeep's lane.
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
  virtual BootMs answered() const = 0;

  // Takes no new turn at a job; what is blocked in a call ends by its own time-out. Does not wait.
  virtual void stop() = 0;
  // Whether all jobs ended within `most`. Call after stop().
  virtual bool join(Ms most) = 0;

 protected:
  // Before a job is tried again: twice as long each time.
  static constexpr Ms kFirstPause{100}, kLongestPause{5000};

  struct Job {
    std::function<std::optional<Error>(Store&)> attempt;
    std::function<void(const Error&)> give_up;
    std::function<void()> deliver;
  };

  virtual void enqueue(Lane lane, Job job) = 0;
};

using StoreJobsMaker = std::function<std::unique_ptr<StoreJobs>(StoreJobs::OnStatus on_status)>;

}  // namespace rung::bridge
