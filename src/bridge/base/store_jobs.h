// The bridge's database jobs, whose answers return on the loop. StoreThreads runs them on threads with a
// connection each; the simulator runs them when it chooses.
//
// A job with a transient error is retried, on a new connection and with backoff, until it succeeds or stop()
// is called: an outage pauses the flow but does not break it. So is a job that the database refuses (a
// missing right or table), except on the lanes upkeep and retention, whose callers do their own waiting.
// (Jobs may be repeated: see store.h.) Thread: the loop's for submit() and the callbacks; work may run on
// another thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/bridge/base/observers.h"
#include "src/core/base/time.h"
#include "src/store/store.h"

namespace rung::bridge {

// Rows of one transaction: larger batches than a few hundred gain nothing. kMostInFlight: batches of one flow
// at a time, one in the database, one on the way.
inline constexpr std::size_t kMostInBatch = 500;
inline constexpr std::size_t kBytesInBatch = 8 * 1024 * 1024;  // bodies of one transaction
inline constexpr int kMostInFlight = 2;

// What runs where. Each lane has a thread and a connection of its own, flow several: nothing delays the
// leases, and gates wait for no sweep. upkeep and retention may wait for a table; each opens its connection
// for its first job.
// - leases: cycles, one at a time, and leaving. Nothing else.
// - gates: what Gates reads, one job at a time.
// - gate_writes: what it writes. A locked row delays no read.
// - sweeps: queries for rows (the heap, sweeps, silence, stranded tasks), a few jobs of each.
// - flow: inserts, claims, changes, values of headers, parked copies, bounded by their callers
//   (kMostInFlight, max_unconfirmed).
// - upkeep: events, attachments, counts of causes and deliveries.
// - retention: deletes, and changes of partitions, which may take minutes.
// most_waiting() bounds the lanes whose callers set no bound: a job beyond it is refused.
enum class Lane { leases, flow, upkeep, gates, gate_writes, sweeps, retention };
inline constexpr std::size_t kLanes = 7;
constexpr std::size_t most_waiting(Lane lane) {
  constexpr std::size_t kFew = 200, kMany = 2000;
  if (lane == Lane::flow || lane == Lane::leases) return static_cast<std::size_t>(-1);
  return lane == Lane::upkeep ? kMany : kFew;
}

// Its callers see what the database refuses; else it is retried.
constexpr bool sees_refusals(Lane lane) { return lane == Lane::upkeep || lane == Lane::retention; }

class StoreJobs {
 public:
  struct Status {
    bool away = false;     // some thread waits to retry its job
    bool refused = false;  // the database answers, and refuses
    std::string reason;    // the latest; "" if nothing is away
  };

  // Called on the loop: when the first job has to wait, for each new reason since then, and when the last one
  // continues.
  using OnStatus = std::function<void(const Status&)>;

  virtual ~StoreJobs() = default;

  // `work(Store&) -> T`, then `done(Result<T>)` on the loop, with the StoreError that work threw. done sees a
  // transient error only after stop(), and Kind::refused only on those two lanes, or if too many jobs wait
  // (most_waiting()).
  template <typename T, typename Work, typename Done>
  void submit(Lane lane, Work work, Done done) {
    auto result = std::make_shared<std::optional<Result<T>>>();
    Job job;
    job.attempt = [work = std::move(work), result](Store& store) -> std::optional<Error> {
      *result = result_of([&]() -> T { return work(store); });
      if ((*result)->has_value()) return std::nullopt;
      return (*result)->error();
    };
    job.give_up = [result](const Error& error) { result->emplace(tl::unexpected<Error>(error)); };
    job.deliver = [done = std::move(done), result] { done(std::move(**result)); };
    enqueue(lane, std::move(job));
  }

  // When the database last completed or refused a job; if it never did, when this object was created.
  virtual BootMs answered() const = 0;
  // When it last did what a job asked for, or refused it for the sake of its data alone.
  virtual BootMs served() const { return answered(); }

  // Starts no further attempt of a job; a blocked call ends by its own timeout. Does not wait.
  virtual void stop() = 0;
  // Whether all jobs ended within `most`. Call after stop().
  virtual bool join(Ms most) = 0;

 protected:
  // The pause before a retry: doubled each time.
  static constexpr Ms kFirstPause{100}, kLongestPause{5000};

  struct Job {
    std::function<std::optional<Error>(Store&)> attempt;
    std::function<void(const Error&)> give_up;
    std::function<void()> deliver;
  };

  virtual void enqueue(Lane lane, Job job) = 0;
};

using StoreJobsMaker = std::function<std::unique_ptr<StoreJobs>(StoreJobs::OnStatus on_status)>;

inline constexpr std::size_t kMostReasons = 20;  // of one outage: others write them

// Decides what to report of a database outage: each reason once, not once per thread or per try.
// Thread: any, one at a time; several threads must guard it with their own lock.
class StoreOutage {
 public:
  // A job waits for a retry; `away` is its owner's flag, false at first. Returns what to report now, if
  // anything.
  std::optional<StoreJobs::Status> waits(bool& away, const Error& error) {
    if (!std::exchange(away, true)) ++away_;
    const bool refused = error.kind == Error::Kind::refused;
    const bool turned = std::exchange(refused_, refused) != refused;  // decides whether a start is given up
    const bool news = reasons_.is_news(error.message);
    if (!news && !turned) return std::nullopt;
    return StoreJobs::Status{true, refused, error.message};
  }
  // That job is done, or given up.
  std::optional<StoreJobs::Status> goes_on(bool& away) {
    if (!std::exchange(away, false) || --away_ > 0) return std::nullopt;
    reasons_.clear();
    refused_ = false;
    return StoreJobs::Status{};
  }

 private:
  int away_ = 0;
  bool refused_ = false;
  OncePerName reasons_{kMostReasons};
};

}  // namespace rung::bridge
