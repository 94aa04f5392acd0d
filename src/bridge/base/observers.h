// Who is told what becomes of tasks, and of the system itself.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plugin/broker.h"
#include "src/core/base/health.h"
#include "src/core/base/time.h"
#include "src/core/machine/machine.h"
#include "src/core/task/task.h"

namespace rung::bridge {

// Records something that happened to the system itself, not to a task (rung_events). `kind`: a constant word.
// Thread: the loop's.
using RecordEvent =
    std::function<void(const char* kind, const std::string& subject, const std::string& detail)>;

// The current problems of this instance, by name. The component that detects a problem sets it, and clears it
// when it is over; /readyz, the metric rung_problem, `rung stats` and `rung nodes` show them.
// Thread: the loop's.
class Health {
 public:
  enum class Effect { warning, not_ready };

  // `changed` runs after each change.
  Health(const Clock& clock, std::function<void()> changed) : clock_(clock), changed_(std::move(changed)) {}

  // Begins a problem, or updates its detail. `name` is a constant: it is a metric's label.
  void set(std::string_view name, std::string detail, Effect effect = Effect::warning) {
    const bool not_ready = effect == Effect::not_ready;
    const auto it = std::ranges::find(problems_, name, &HealthProblem::name);
    if (it == problems_.end()) {
      problems_.push_back({std::string(name), std::move(detail), clock_.wall(), not_ready});
    } else {
      if (it->detail == detail && it->not_ready == not_ready) return;
      it->detail = std::move(detail);
      it->not_ready = not_ready;
    }
    changed_();
  }
  void clear(std::string_view name) {
    if (std::erase_if(problems_, [&](const HealthProblem& p) { return p.name == name; }) > 0) changed_();
  }
  // Sets a warning, or clears it if `detail` is empty. Returns whether it is new.
  bool show(std::string_view name, const std::string& detail) {
    if (detail.empty()) {
      clear(name);
      return false;
    }
    const bool begins = !has(name);
    set(name, detail);
    return begins;
  }
  bool has(std::string_view name) const {
    return std::ranges::find(problems_, name, &HealthProblem::name) != problems_.end();
  }
  const std::vector<HealthProblem>& problems() const { return problems_; }

 private:
  const Clock& clock_;
  const std::function<void()> changed_;
  std::vector<HealthProblem> problems_;
};

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
