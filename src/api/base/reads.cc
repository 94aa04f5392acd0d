#include "src/api/base/reads.h"

#include <algorithm>
#include <exception>
#include <tuple>

namespace rung::api {

std::unique_ptr<MysqlStore> Reads::take() {
  std::unique_lock lock(mutex_);
  if (!free_.wait_for(lock, call_timeout_ - query_timeout(call_timeout_), [this] { return out_ < most_; }))
    throw Problem(Error{Error::Kind::transient, "the database does not keep up with the requests"});
  ++out_;
  if (idle_.empty()) return nullptr;
  auto store = std::move(idle_.back());
  idle_.pop_back();
  return store;
}

std::unique_ptr<MysqlStore> Reads::open() const {
  try {
    return factory_();
  } catch (StoreError& e) {
    if (e.error.kind == Error::Kind::permanent) e.error.kind = Error::Kind::refused;  // not the caller's
    throw;
  }
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

namespace {

constexpr std::int64_t kMostWaiting = 64 << 20;  // bytes handed over and not yet answered
constexpr std::int64_t kBytesOfEvent = 1024;

template <typename T, typename Ask>
Result<T> await_reply(const std::shared_ptr<std::atomic<std::int64_t>>& waiting, std::int64_t bytes,
                      Ms reply_timeout, const Ask& ask) {
  if (waiting->fetch_add(bytes) + bytes > kMostWaiting && bytes < kMostWaiting) {
    waiting->fetch_sub(bytes);
    return transient(
        "too much data is already waiting for the database: this request was not accepted; try again later");
  }
  auto result = answer_within<Result<T>>(reply_timeout, [&](auto done) {
    ask([done, waiting, bytes](Result<T> answer) {
      waiting->fetch_sub(bytes);
      done(std::move(answer));
    });
  });
  if (result) return *std::move(result);
  return transient(
      "the database did not answer in time: the request may still take effect; query the task before you "
      "try again (repeating a submission with the same message_id creates no second task)");
}

}  // namespace

Result<std::vector<bridge::Submitted>> Writes::submit(std::vector<Submission> batch) {
  std::int64_t bytes = 0;
  for (const Submission& s : batch) bytes += s.task.task.body_bytes + kBytesOfEvent;
  return await_reply<std::vector<bridge::Submitted>>(waiting_, bytes, reply_timeout_, [&](auto done) {
    bridging_.submit(std::move(batch), std::move(done));
  });
}

Result<std::vector<Decision>> Writes::change(std::vector<Event> events, std::int64_t more) {
  const auto bytes = static_cast<std::int64_t>(events.size()) * kBytesOfEvent + more;
  return await_reply<std::vector<Decision>>(waiting_, bytes, reply_timeout_, [&](auto done) {
    bridging_.change(std::move(events), std::move(done));
  });
}

TaskCount TaskCounter::count(MysqlStore& store, EpochMs now, Ms most) {
  TaskCount out{store.open_by_queue(), {}};
  const BootMs until = clock_.boot() + most;
  std::unique_lock lock(mutex_);
  if (free_.wait_for(lock, most, [&] { return !counting_; })) {
    counting_ = true;
    lock.unlock();
    std::exception_ptr failed;
    try {
      count_ended(store, now, until);
    } catch (...) {
      failed = std::current_exception();
    }
    lock.lock();
    counting_ = false;
    free_.notify_all();
    if (failed) std::rethrow_exception(failed);
  }
  out.ended_at = ended_at_;
  for (const auto& [which, tasks] : ended_at_ ? whole_ : so_far_)
    out.queues.push_back({which.first, which.second, tasks, {}, 0});
  std::ranges::sort(out.queues, {}, [](const QueueStat& stat) { return std::tie(stat.queue, stat.state); });
  return out;
}

void TaskCounter::count_ended(MysqlStore& store, EpochMs now, BootMs until) {
  bool from_here = !begun_at_;  // otherwise an earlier call began this count: it lacks what has ended since
  do {
    if (!begun_at_) begun_at_ = now;
    if (count_piece(store) && std::exchange(from_here, true)) break;
  } while (clock_.boot() < until);
}

bool TaskCounter::count_piece(MysqlStore& store) {
  auto piece = store.count_ended(place_, piece_);
  const std::lock_guard lock(mutex_);
  Ended sum = so_far_;  // a piece counts as a whole, or not at all
  for (const QueueStat& stat : piece.queues) sum[{stat.queue, stat.state}] += stat.tasks;
  so_far_.swap(sum);
  const bool is_last = !piece.next;
  place_ = is_last ? EndedPlace{} : *std::move(piece.next);
  if (is_last) {
    whole_ = std::exchange(so_far_, {});
    ended_at_ = std::exchange(begun_at_, std::nullopt);
  }
  return is_last;
}

std::optional<Result<std::string>> BriefCache::get(std::function<Result<std::string>()> read, Ms most) {
  std::unique_lock lock(mutex_);
  if (!reads_ && clock_.boot() >= until_) {
    if (thread_.joinable()) thread_.join();  // it has said its last
    reads_ = true;
    thread_ = std::thread([this, read = std::move(read)] {
      const BootMs began = clock_.boot();
      Result<std::string> answer;
      try {
        answer = read();
      } catch (const std::exception& e) {
        answer = permanent(e.what());
      }
      const std::lock_guard done(mutex_);
      const BootMs ended = clock_.boot();
      if (answer) until_ = ended + std::max(kept_, (ended - began) * share_);
      last_ = std::move(answer);
      reads_ = false;
      ended_.notify_all();
    });
  }
  ended_.wait_for(lock, most, [this] { return !reads_; });
  return last_;
}

}  // namespace rung::api
