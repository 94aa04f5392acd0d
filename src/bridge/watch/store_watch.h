// Watches the database's state: logs each change, and maintains the problems "database", "clock", "restored"
// and "behind" in Health. Thread: the loop's.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "src/bridge/base/sidecar.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/threads.h"

namespace rung::bridge {

class StoreWatch {
 public:
  explicit StoreWatch(const Sidecar& sidecar);

  void changed(const StoreJobs::Status& status);
  void noticed(const Shards::Notice& notice);
  // A consumer answered a delivery of ours that the task's row does not know, or the row is missing: commits
  // were lost.
  void behind(TaskId id, const std::string& how);

  bool away() const { return away_; }
  const std::string& refusal() const { return refusal_; }  // "" = the database does not refuse us

 private:
  const Sidecar& sidecar_;
  bool away_ = false;
  BootMs away_since_{0};
  std::string refusal_;
  io::Timer clock_calm_, restored_calm_, behind_calm_;  // clear the problems of these names
};

// Runs store jobs on threads with a connection each.
// Thread: the loop's; work runs on a store thread.
class StoreThreads final : public StoreJobs {
 public:
  // `idle`: a thread without work for this long closes its connection, before the database cuts it
  // (open_mysql_store()'s `silence`, which must be longer).
  StoreThreads(io::Loop& loop, StoreFactory factory, int flow_threads, OnStatus on_status,
               Ms idle = std::chrono::hours{24});
  ~StoreThreads() override;

  BootMs answered() const override { return {answered_ms_.load(std::memory_order_relaxed)}; }
  BootMs served() const override { return {served_ms_.load(std::memory_order_relaxed)}; }
  void stop() override;
  bool join(Ms most) override;

 private:
  struct Queue {
    std::deque<Job> jobs;
    std::condition_variable ready;
  };

  Queue& queue_of(Lane lane) { return queues_[static_cast<std::size_t>(lane)]; }
  void enqueue(Lane lane, Job job) override;
  void run(Lane lane);
  void perform(Lane lane, Job& job, std::unique_ptr<Store>& store, Backoff& backoff);
  std::optional<Error> attempt_once(Job& job, std::unique_ptr<Store>& store);
  // Of the job whose flag `away` is: it waits, for this error; nullptr: it goes on.
  void tell(bool& away, const Error* error);
  bool pause(Ms length);  // false: stopped meanwhile

  io::Loop& loop_;
  const StoreFactory factory_;
  const OnStatus on_status_;
  const Ms idle_;

  std::mutex mutex_;
  std::array<Queue, kLanes> queues_;  // guarded by mutex_
  bool stopping_ = false;             // guarded by mutex_
  StoreOutage outage_;                // guarded by mutex_
  int running_ = 0;                   // guarded by mutex_
  std::condition_variable stopped_;
  std::atomic<std::int64_t> answered_ms_, served_ms_;
  std::vector<std::thread> threads_;
};

}  // namespace rung::bridge
