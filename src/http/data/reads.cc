#include "src/http/data/reads.h"

namespace rung::http {

Result<std::unique_ptr<MysqlStore>> Reads::take() {
  std::unique_lock lock(mutex_);
  if (!free_.wait_for(lock, call_timeout_ - query_timeout(call_timeout_), [this] { return out_ < most_; }))
    return transient("the database does not keep up with the requests");
  ++out_;
  if (idle_.empty()) return std::unique_ptr<MysqlStore>();
  auto store = std::move(idle_.back());
  idle_.pop_back();
  return store;
}

void Reads::give_back(std::unique_ptr<MysqlStore> store) {
  const std::lock_guard lock(mutex_);
  --out_;
  if (store != nullptr) idle_.push_back(std::move(store));
  free_.notify_one();
}

void Reads::forget_idle() {
  std::vector<std::unique_ptr<MysqlStore>> gone;  // destroyed after the lock is released
  const std::lock_guard lock(mutex_);
  gone.swap(idle_);
}

BackgroundTask::~BackgroundTask() {
  if (thread_.joinable()) thread_.join();
}

bool BackgroundTask::run(std::function<void()> work, Ms most) {
  std::unique_lock lock(mutex_);
  if (!runs_) {
    if (thread_.joinable()) thread_.join();  // it has reported its end
    runs_ = true;
    thread_ = std::thread([this, work = std::move(work)] {
      work();
      const std::lock_guard done(mutex_);
      runs_ = false;
      ended_.notify_all();
    });
  }
  return ended_.wait_for(lock, most, [this] { return !runs_; });
}

}  // namespace rung::http
