#include <algorithm>
#include <functional>

#include "tests/simulator/runs.h"

namespace rung::sim {
namespace {

constexpr int kMostTries = 120;

std::string promise_of(const Outcome& outcome) { return outcome.broken.substr(0, outcome.broken.find(':')); }

class Shrinker {
 public:
  Shrinker(Settings settings, std::string promise)
      : best_(std::move(settings)), promise_(std::move(promise)) {}

  Settings run() {
    bool smaller = true;
    while (smaller && tries_ < kMostTries) {
      smaller = false;
      for (const Fault fault : std::set<Fault>(best_.faults))
        smaller |= keep([&](Settings& s) { s.faults.erase(fault); });
      for (const Actor actor : std::set<Actor>(best_.actors))
        smaller |= keep([&](Settings& s) { s.actors.erase(actor); });
      if (best_.nodes > 1) smaller |= keep([](Settings& s) { --s.nodes; });
      if (best_.messages > 1) smaller |= keep([](Settings& s) { s.messages /= 2; });
      if (best_.active > 10 * kSecond)
        smaller |= keep([](Settings& s) { s.active = s.active / 2 / kSecond * kSecond; });
    }
    return best_;
  }

 private:
  bool keep(const std::function<void(Settings&)>& change) {
    if (++tries_ > kMostTries) return false;
    Settings smaller = best_;
    change(smaller);
    if (promise_of(simulate(smaller)) != promise_) return false;
    best_ = std::move(smaller);
    return true;
  }

  Settings best_;
  const std::string promise_;
  int tries_ = 0;
};

}  // namespace

Settings shrink(Settings settings, const Outcome& outcome) {
  return Shrinker(std::move(settings), promise_of(outcome)).run();
}

}  // namespace rung::sim
