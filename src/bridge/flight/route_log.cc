#include "src/bridge/flight/route_log.h"

#include "src/io/log.h"

namespace rung::bridge {

void RefusedPublishes::dead_lettered(TaskId id, int attempt, const std::string& queue) {
  ++count_;
  log::info("dead letter of a publish that its full queue refused: acked, the task is published again",
            {{"id", id.value}, {"attempt", attempt}, {"queue", queue}});
  if (!told_.is_news(queue)) return;
  log::warn("a full queue refuses publishes and dead-letters them as well: use overflow reject-publish",
            {{"queue", queue}});
  record_("refused_publish_dead_lettered", queue,
          "the queue is full, and x-overflow reject-publish-dlx dead-letters what it refuses: each try of a "
          "retry comes back at once and changes nothing. Set overflow: reject-publish");
}

}  // namespace rung::bridge
