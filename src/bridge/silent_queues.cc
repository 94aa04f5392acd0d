#include "src/bridge/silent_queues.h"

#include <algorithm>
#include <cstddef>

#include "src/io/log.h"

namespace rung::bridge {
namespace {

constexpr std::size_t kMostSilentNamed = 5;  // in the problem's detail

}  // namespace

void SilentQueues::set(const std::vector<Targets::Silent>& silent, BootMs now) {
  if (silent.empty() && since_.empty()) return;  // the usual case
  std::map<std::uint32_t, BootMs> since;
  std::string named;
  for (const Targets::Silent& one : silent) {
    const auto known = since_.find(one.queue);
    since.emplace(one.queue, known == since_.end() ? one.since : known->second);
    if (known == since_.end()) {
      log::warn("queue does not answer publishes: it gets no more until it does",
                {{"queue", name_of(one.queue)},
                 {"unanswered", one.unanswered},
                 {"silent_ms", (now - one.since).count()}});
    }
    if (since.size() <= kMostSilentNamed) named += (named.empty() ? "" : ", ") + name_of(one.queue);
  }
  for (const auto& [queue, when] : since_) {
    if (!since.contains(queue))
      log::info("queue answers publishes again",
                {{"queue", name_of(queue)}, {"silent_ms", (now - when).count()}});
  }
  since_ = std::move(since);
  if (since_.empty()) return health_.clear("silent_queues");
  if (since_.size() > kMostSilentNamed)
    named += " and " + std::to_string(since_.size() - kMostSilentNamed) + " more";
  health_.set("silent_queues", "no answer to publishes to " + named +
                                   ": messages for it wait until the broker confirms again");
}

std::string SilentQueues::name_of(std::uint32_t queue) const { return names_.name(queue); }

}  // namespace rung::bridge
