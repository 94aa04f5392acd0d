// Who is told what becomes of tasks, and of the system itself.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>

#include "plugin/broker.h"
#include "src/core/base/time.h"
#include "src/core/machine/machine.h"
#include "src/core/task/task.h"

namespace rung::bridge {

// Records something that happened to the system itself, not to a task (rung_events). `kind`: a constant word.
// Thread: the loop's.
using RecordEvent =
    std::function<void(const char* kind, const std::string& subject, const std::string& detail)>;

// Observes what becomes of tasks, for traces. The bridge has none where traces are off.
// Times: the database's clock. Thread: the loop's.
class Tracer {
 public:
  virtual ~Tracer() = default;
  // A new task is committed.
  virtual void received(const NewTask& fresh, EpochMs now) = 0;
  // The task's current attempt was passed to the broker's connection.
  virtual void sent(const Task& task, const Outgoing& outgoing, EpochMs now) = 0;
  // The result of that, exactly one for each sent(). Without a sent() before it: the attempt cannot be sent.
  virtual void answered(const Task& task, const PublishResult& result, EpochMs now) = 0;
  // A task's row has changed. REQUIRES: the verdict is `applied`.
  virtual void decided(const Decision& decision) = 0;
};

// Names and texts that come from messages or servers, each of which is told once. Of those after the first
// `most` nothing is told: what counts them says that there are more. Thread: its owner's.
class OncePerName {
 public:
  static constexpr std::size_t kMost = 1000;
  explicit OncePerName(std::size_t most = kMost) : most_(most) {}

  // Whether this is to be told now.
  bool is_news(const std::string& name) { return told_.size() < most_ && told_.insert(name).second; }
  void clear() { told_.clear(); }

 private:
  const std::size_t most_;
  std::set<std::string> told_;
};

}  // namespace rung::bridge
