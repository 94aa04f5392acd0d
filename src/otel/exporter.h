// Sends spans to a collector by OTLP over HTTP, as JSON. A collector that is slow or away costs spans, never
// messages: a thread of its own takes batches from the queue, sends each until the collector has answered for
// it, and counts. Thread: of an Exporter add() and counts() any, stop() one; the other classes are used by
// its thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "src/core/base/threads.h"
#include "src/core/base/time.h"
#include "src/net/http_client.h"
#include "src/otel/span.h"

namespace rung::otel {

struct ExportResult {
  enum class Kind { accepted, retry, refused };
  Kind kind = Kind::refused;
  std::int64_t rejected = 0;  // accepted: all but so many
  Ms retry_after{0};          // retry: the collector asked for this pause; 0 = it did not
  std::string reason;         // retry, refused, or some were rejected: why
};

// What the reply to a batch of `spans` means (OTLP/HTTP Response, in OTLP's specification). Its body can be
// anything of up to HttpClientOptions::max_answer bytes.
ExportResult read_reply(const net::HttpReply& reply, std::size_t spans);

// Logs when spans stop arriving at the collector, and when they arrive again: one line per change, and at
// most one warning a minute.
class CollectorLog {
 public:
  // `clock`: nullptr = no limit per minute.
  CollectorLog(const std::string& endpoint, const Clock* clock);

  // `event`: a constant. `dropped`: spans so far, in both.
  void failing(std::string_view event, const std::string& reason, std::int64_t dropped);
  void accepting(std::int64_t dropped);

 private:
  bool may_warn() const;

  const std::string endpoint_;
  const Clock* const clock_;
  std::string_view warned_of_;       // the event of this outage; "" = none logged
  std::optional<BootMs> warned_at_;  // the last warning
  std::int64_t dropped_before_ = 0;  // this outage
};

struct ExporterOptions {
  std::string endpoint;  // "http://collector:4318"; "/v1/traces" is appended
  std::vector<std::pair<std::string, std::string>> headers =
      {};                                // sent with each request, such as authorization
  std::string ca = {};                   // PEM file; "" = the system's
  bool verify = true;                    // the server's certificate and its name
  std::vector<Attribute> resource = {};  // service.name and others
  // Limits warnings to one a minute; nullptr = one per change.
  const Clock* clock = nullptr;
};

// Tests have their own.
struct ExportLimits {
  std::size_t queue = 10'000, batch = 512;  // spans
  Ms linger{1000};                          // an incomplete batch waits so long for more spans
  Ms connecting{3000}, answering{7000};     // of a request, added
  Ms first_pause{1000}, most_pause{30'000};
  // More than this no collector gets, whatever its Retry-After says: spans wait in bounded memory meanwhile.
  Ms most_asked{5 * 60'000};
  int tries = 5;      // of a batch that may be sent again
  Ms stopping{1000};  // stop() takes no longer
};

class Exporter {
 public:
  explicit Exporter(ExporterOptions options, ExportLimits limits = {});
  ~Exporter() { stop(); }
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // Never waits for the collector. Drops the span, and counts it, if the queue is full.
  void add(Span span);
  // Sends what is queued, and aborts after ExportLimits::stopping; drops the rest. Spans added from now on
  // are dropped.
  void stop();

  struct Counts {
    std::int64_t exported = 0;  // accepted by the collector
    std::int64_t dropped = 0;   // queue full, refused, or no answer after the retries
  };
  Counts counts() const { return {exported_, dropped_ + overflowed_}; }

 private:
  void run();
  // Waits for a span, then at most ExportLimits::linger for a full batch. Empty: stop() was called, and
  // nothing is left.
  std::vector<Span> take();
  // Waits at most so long for stop(). Returns whether it was called.
  bool wait_stopping(Ms most);
  // Sends until the batch is accepted or refused, or may not be sent again.
  void deliver(const std::vector<Span>& batch);
  void count(const ExportResult& result, std::int64_t spans, bool overflow);

  const ExporterOptions options_;
  const ExportLimits limits_;
  net::HttpClient client_;
  Backoff delay_;         // the thread's
  CollectorLog log_;      // the thread's
  bool gave_up_ = false;  // the thread's: stopping, and the collector does not accept
  std::atomic<std::int64_t> exported_{0}, dropped_{0};
  std::atomic<std::int64_t> overflowed_{0};  // dropped because the queue was full
  std::mutex mutex_;
  std::condition_variable changed_, ended_;
  std::deque<Span> queue_;  // guarded by mutex_
  bool stopping_ = false;   // guarded by mutex_
  bool running_ = true;     // guarded by mutex_
  std::thread thread_;      // last: starts when everything else is there
};

}  // namespace rung::otel
