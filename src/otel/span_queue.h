// The spans that wait for the exporter's thread. Bounded. Thread: add(), close() and dropped() any; the
// others one.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "src/otel/span.h"

namespace rung::otel {

class SpanQueue {
 public:
  // Holds up to `most` spans; take() returns up to `batch` of them.
  SpanQueue(std::size_t most, std::size_t batch) : most_(most), batch_(batch) {}

  // Never waits for a reader. Drops the span, and counts it, if the queue is full or closed.
  void add(Span span);
  // Waits for a span, then at most `linger` for a full batch. Empty: closed, and nothing is left.
  std::vector<Span> take(Ms linger);
  // What is queued can still be taken, without waiting.
  void close();
  // Waits for close(), at most so long. Returns whether it was called.
  bool wait_closed(Ms most);
  std::int64_t dropped() const;

 private:
  const std::size_t most_, batch_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Span> spans_;    // guarded by mutex_
  std::int64_t dropped_ = 0;  // guarded by mutex_
  bool closed_ = false;       // guarded by mutex_
};

}  // namespace rung::otel
