#include "tests/support/virtual_time.h"

#include <algorithm>

namespace rung::test {

// --- the loop

class VirtualAlarm final : public io::Loop::Alarm {
 public:
  VirtualAlarm(VirtualLoop& loop, std::function<void()> fire) : loop_(loop), fire_(std::move(fire)) {}
  ~VirtualAlarm() override { stop(); }
  VirtualAlarm(const VirtualAlarm&) = delete;
  VirtualAlarm& operator=(const VirtualAlarm&) = delete;

  void start(Ms delay, Ms repeat) override {
    stop();
    repeat_ = repeat;
    key_ = loop_.at(loop_.clock().boot() + std::max(delay, Ms{0}), [this] { fired(); });
  }
  void stop() override {
    if (key_) loop_.due_.erase(*key_);
    key_.reset();
  }
  bool active() const override { return key_.has_value(); }

 private:
  void fired() {
    key_.reset();
    if (repeat_ > Ms{0}) start(repeat_, repeat_);
    const auto fire = fire_;  // a copy: it may end the Timer
    fire();
  }

  VirtualLoop& loop_;
  const std::function<void()> fire_;
  Ms repeat_{0};
  std::optional<VirtualLoop::Key> key_;
};

std::unique_ptr<io::Loop::Alarm> VirtualLoop::make_alarm(std::function<void()> fire) {
  return std::make_unique<VirtualAlarm>(*this, std::move(fire));
}

VirtualLoop::Key VirtualLoop::at(BootMs time, std::function<void()> task) {
  const Key key{time, ++last_};
  due_.emplace(key, std::move(task));
  return key;
}

bool VirtualLoop::step() {
  if (due_.empty()) return false;
  const auto next = due_.extract(due_.begin());
  clock_.set(std::max(clock_.boot(), next.key().first));
  next.mapped()();
  hook();
  return true;
}

void VirtualLoop::run_until(BootMs time) {
  hook();
  while (!due_.empty() && due_.begin()->first.first <= time) step();
  clock_.set(std::max(clock_.boot(), time));
  hook();
}

bool VirtualLoop::run_until(const std::function<bool()>& condition, Ms most) {
  const BootMs end = clock_.boot() + most;
  hook();
  while (!condition()) {
    if (due_.empty() || due_.begin()->first.first > end) {
      clock_.set(end);
      return condition();
    }
    step();
  }
  return true;
}

// --- the jobs

namespace {

using bridge::Lane;

std::ptrdiff_t threads(Lane lane) { return lane == Lane::flow ? 2 : 1; }

std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }

}  // namespace

VirtualJobs::VirtualJobs(VirtualLoop& loop, StoreFactory factory, OnStatus on_status)
    : loop_(loop),
      factory_(std::move(factory)),
      on_status_(std::move(on_status)),
      answered_(loop.clock().boot()) {
  latency_.fill(kLatency);
}

void VirtualJobs::by_itself(Lane lane, Ms latency) {
  latency_[index(lane)] = latency;
  begin_next();
}

void VirtualJobs::by_hand(Lane lane) {
  latency_[index(lane)].reset();
  for (Work& work : work_) {
    if (work.lane != lane) continue;
    work.timer.stop();
    work.begun = false;
  }
}

std::size_t VirtualJobs::waiting(Lane lane) const {
  return static_cast<std::size_t>(std::ranges::count(work_, lane, &Work::lane));
}

bool VirtualJobs::run_next(Lane lane) {
  const auto oldest = std::ranges::find(work_, lane, &Work::lane);
  if (oldest == work_.end()) return false;
  attempt(*oldest);
  return true;
}

void VirtualJobs::enqueue(Lane lane, Job job) {
  ++submitted_.at(static_cast<std::size_t>(lane));
  work_.emplace_back(lane, std::move(job), loop_, [this](Work& work) { attempt(work); });
  begin_next();
}

void VirtualJobs::begin_next() {
  for (Work& work : work_) {
    const auto& latency = latency_[index(work.lane)];
    const auto busy =
        std::ranges::count_if(work_, [&](const Work& w) { return w.begun && w.lane == work.lane; });
    if (!latency || work.begun || busy >= threads(work.lane)) continue;
    work.begun = true;
    work.timer.start(*latency);
  }
}

void VirtualJobs::attempt(Work& work) {
  const auto store = result_of(factory_);
  auto error = store ? work.job.attempt(**store) : std::optional(store.error());
  if (!store && !error->is_transient()) error->kind = Error::Kind::refused;  // a login may be allowed again
  const bool refused = error && error->kind == Error::Kind::refused;
  if (!error || error->kind != Error::Kind::transient) answered_ = loop_.clock().boot();
  const bool given_up = refused && store && sees_refusals(work.lane);
  if (!error || !error->is_transient() || given_up) return finish(work, error);
  try_later(work, *error);
}

void VirtualJobs::try_later(Work& work, const Error& error) {
  tell(outage_.waits(work.away, error));
  if (stopping_) return finish(work, Error{Error::Kind::transient, "stopping: " + error.message});
  work.pause = std::clamp(work.pause * 2, kFirstPause, kLongestPause);
  if (latency_[index(work.lane)]) work.timer.start(work.pause);
}

void VirtualJobs::finish(Work& work, const std::optional<Error>& error) {
  if (error) work.job.give_up(*error);
  const auto here = std::ranges::find(work_, &work, [](const Work& w) { return &w; });
  std::list<Work> done;
  done.splice(done.end(), work_, here);
  tell(outage_.goes_on(work.away));
  post(std::move(work.job.deliver));
  begin_next();
}

void VirtualJobs::tell(const std::optional<Status>& status) {
  if (status && on_status_) post([this, status = *status] { on_status_(status); });
}

void VirtualJobs::post(std::function<void()> task) {
  loop_.post([task = std::move(task), alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) task();
  });
}

void VirtualJobs::stop() {
  stopping_ = true;
  for (auto it = work_.begin(); it != work_.end();) {
    Work& work = *it++;
    if (work.away) finish(work, Error{Error::Kind::transient, "stopping"});
  }
}

bool VirtualJobs::join(Ms /*most*/) {
  stopping_ = true;
  while (!work_.empty()) attempt(work_.front());
  return true;
}

}  // namespace rung::test
