// Virtual time, advanced by the test: a clock, a loop and store jobs, all on the test's own thread. Nothing
// sleeps: time jumps to the next event.
//
//   VirtualClock clock;
//   VirtualLoop loop(clock);
//   loop.after_each([&] { while (broker.pump()) {} });  // a MemoryBroker with Pace::by_hand
//   VirtualJobs jobs(loop, factory);                    // a job takes 1 ms
//   jobs.by_hand(Lane::flow);                           // such jobs wait for run_next()
//   loop.run_for(Ms{500});
//
// Thread: one for all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/bridge/base/store_jobs.h"
#include "src/core/base/time.h"
#include "src/io/loop.h"

namespace rung::test {

// Both clocks begin at a whole second and advance together; so does the database's, if a MemoryDb uses this
// clock.
class VirtualClock final : public Clock {
 public:
  BootUs boot_us() const override { return {now_.ms * 1000}; }
  EpochMs wall() const override { return {kWallAtBoot + now_.ms}; }
  void set(BootMs now) { now_ = now; }

 private:
  static constexpr std::int64_t kWallAtBoot = 1'800'000'000'000;
  BootMs now_{1'000'000};
};

class VirtualLoop final : public io::Loop {
 public:
  // REQUIRES: `clock` outlives it, and every Timer on it is destroyed before it.
  explicit VirtualLoop(VirtualClock& clock) : clock_(clock) {}

  const Clock& clock() const override { return clock_; }
  // Runs at the present instant, after everything that is already due then.
  void post(std::function<void()> task) override { at(clock_.boot(), std::move(task)); }
  std::unique_ptr<Alarm> make_alarm(std::function<void()> fire) override;
  Ms timer_clock() const override { return Ms{clock_.boot().ms}; }

  // `hook` runs after each step, and before the first one.
  void after_each(std::function<void()> hook) { hook_ = std::move(hook); }

  // Advances time to the next event and runs it; events of the same time run in the order in which they were
  // added. False if there is none.
  bool step();
  // Runs everything that is due by then, inclusive, and advances time to it.
  void run_until(BootMs time);
  void run_for(Ms time) { run_until(clock_.boot() + time); }
  // Runs step by step until the condition holds. False if it does not within `most`.
  bool run_until(const std::function<bool()>& condition, Ms most = Ms{60'000});

 private:
  friend class VirtualAlarm;
  using Key = std::pair<BootMs, std::uint64_t>;
  Key at(BootMs time, std::function<void()> task);
  void hook() const {
    if (hook_) hook_();
  }

  VirtualClock& clock_;
  std::map<Key, std::function<void()>> due_;
  std::uint64_t last_ = 0;
  std::function<void()> hook_;
};

// Does what StoreThreads does (lanes, backoff, status), without threads and without jitter.
class VirtualJobs final : public bridge::StoreJobs {
 public:
  static constexpr Ms kLatency{1};

  VirtualJobs(VirtualLoop& loop, StoreFactory factory, OnStatus on_status = {});

  // The time that a job of the lane takes. Initially 1 ms.
  void by_itself(bridge::Lane lane, Ms latency = kLatency);
  // Jobs of the lane wait for run_next().
  void by_hand(bridge::Lane lane);
  // Runs the oldest job of that lane once; after a transient error it remains the oldest. Its answer is
  // posted to the loop. False if there is none.
  bool run_next(bridge::Lane lane = bridge::Lane::flow);
  std::size_t waiting(bridge::Lane lane) const;
  // Since the beginning.
  std::size_t submitted(bridge::Lane lane) const { return submitted_.at(static_cast<std::size_t>(lane)); }

  BootMs answered() const override { return answered_; }
  // Gives up jobs that wait for a retry.
  void stop() override;
  // Runs all remaining jobs.
  bool join(Ms most) override;

 private:
  struct Work {
    Work(bridge::Lane its_lane, Job its_job, io::Loop& loop, std::function<void(Work&)> attempt)
        : lane(its_lane),
          job(std::move(its_job)),
          timer(loop, [this, attempt = std::move(attempt)] { attempt(*this); }) {}
    const bridge::Lane lane;
    Job job;
    io::Timer timer;     // until its retry
    Ms pause{0};         // before its last attempt; 0 = none
    bool begun = false;  // it occupies a thread of its lane
    bool away = false;   // it waits for the database
  };

  void enqueue(bridge::Lane lane, Job job) override;
  void begin_next();
  void attempt(Work& work);
  void try_later(Work& work, const Error& error);
  void finish(Work& work, const std::optional<Error>& error);
  void tell(const std::optional<Status>& status);
  void post(std::function<void()> task);

  VirtualLoop& loop_;
  const StoreFactory factory_;
  const OnStatus on_status_;
  std::array<std::optional<Ms>, bridge::kLanes> latency_;  // by lane; none = by hand
  std::array<std::size_t, bridge::kLanes> submitted_{};    // by lane
  std::list<Work> work_;                                   // the oldest first
  BootMs answered_;
  bool stopping_ = false;
  bridge::StoreOutage outage_;
  // Posted answers are dropped with this object: a killed instance receives none.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace rung::test
