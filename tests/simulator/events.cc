#include "tests/simulator/events.h"

#include <algorithm>
#include <utility>

namespace rung::sim {

void Events::at(Us when, const ProcessPtr& of, Task task) {
  heap_.push_back({std::max(when, now_), ++sequence_, of, std::move(task)});
  std::ranges::push_heap(heap_, later);
}

void Events::resume(const ProcessPtr& process) {
  process->paused = false;
  for (Task& task : std::exchange(process->piled, {})) at(now_, process, std::move(task));
}

void Events::run(Us until) {
  while (!stopped_ && !heap_.empty() && heap_.front().when <= until) {
    std::ranges::pop_heap(heap_, later);
    const Event event = std::move(heap_.back());
    heap_.pop_back();
    now_ = event.when;
    if (event.of != nullptr && event.of->dead) continue;
    if (event.of != nullptr && event.of->paused) {
      event.of->piled.push_back(event.task);
      continue;
    }
    ++count_;
    mix(event.sequence);
    event.task();
  }
  if (!stopped_) now_ = std::max(now_, until);
}

}  // namespace rung::sim
