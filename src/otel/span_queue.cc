#include "src/otel/span_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rung::otel {

void SpanQueue::add(Span span) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || spans_.size() >= most_) {
      ++dropped_;
      return;
    }
    spans_.push_back(std::move(span));
    // Only what take() waits for: the first span, and a full batch.
    if (spans_.size() != 1 && spans_.size() != batch_) return;
  }
  changed_.notify_one();
}

std::vector<Span> SpanQueue::take(Ms linger) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !spans_.empty(); });
  changed_.wait_for(lock, linger, [&] { return closed_ || spans_.size() >= batch_; });
  const auto end = spans_.begin() + static_cast<std::ptrdiff_t>(std::min(batch_, spans_.size()));
  std::vector<Span> batch(std::make_move_iterator(spans_.begin()), std::make_move_iterator(end));
  spans_.erase(spans_.begin(), end);
  return batch;
}

void SpanQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_one();
}

bool SpanQueue::wait_closed(Ms most) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, most, [&] { return closed_; });
}

std::int64_t SpanQueue::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

}  // namespace rung::otel
