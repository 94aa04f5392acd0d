// Turns the steps of tasks into spans. Each attempt is a trace of its own, of one or two spans, since an
// attempt may follow the one before it by days:
//   attempt 0  "receive": the message became a task
//   attempt n  "publish", from the send to the broker's answer, and its child "settle", from the publish
//   until
//              the outcome is known
// Links connect the publish to the message's own traceparent and to the attempt before it. Ids are digests of
// facts that every instance knows (attempt_context), so nothing is stored, and a takeover or a restart
// between two attempts does not break the links. docs/traces.md describes the attributes. Thread: the loop's.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "src/bridge/base/observers.h"
#include "src/otel/span.h"

namespace rung::otel {

struct TraceOptions {
  std::string service = "rung";  // service and prefix are part of every id: all instances need the same
  std::string prefix = "rung";   // broker.prefix
  double sample = 1.0;           // share of the tasks, 0 to 1
  std::string server = {};       // of the broker; "" = unknown
  int port = 0;
};

class TaskTraces final : public bridge::Tracer {
 public:
  using Sink = std::function<void(Span)>;
  TaskTraces(TraceOptions options, Sink sink) : options_(std::move(options)), sink_(std::move(sink)) {}

  void received(const NewTask& fresh, EpochMs now) override;
  void sent(const Task& task, const Outgoing& outgoing, EpochMs now) override;
  void answered(const Task& task, const PublishResult& result, EpochMs now) override;
  void decided(const Decision& decision) override;

 private:
  bool is_sampled(TaskId id) const;
  Span span_of(const Task& task, int attempt, SpanKind kind, std::string_view operation,
               std::string_view type) const;
  void settle(const Task& task, const Attempt& attempt, const Decision& decision);

  const TraceOptions options_;
  const Sink sink_;
  std::unordered_map<TaskId, Span> under_way_;  // publishes without an answer
};

// The trace of an attempt, and its first span: the first 24 bytes of SHA-256 of
// "SERVICE/PREFIX/RETRY-ID/ATTEMPT". Attempt 0 is the receipt.
SpanContext attempt_context(const TraceOptions& options, TaskId id, int attempt);

}  // namespace rung::otel
