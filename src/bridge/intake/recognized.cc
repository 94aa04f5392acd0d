#include "src/bridge/intake/recognized.h"

#include "src/io/log.h"

namespace rung::bridge {
namespace {

bool is_acked(Recognized::As as) { return as <= Recognized::As::repeat; }

}  // namespace

std::string_view Recognized::to_word(As as) {
  constexpr std::array<std::string_view, kKinds> kWords{"duplicate", "repeat", "changed", "child",
                                                        "elsewhere"};
  return kWords[static_cast<std::size_t>(as)];
}

void Recognized::add(const Item& item) {
  ++counts_[static_cast<std::size_t>(item.as)];
  const bool acked = is_acked(item.as);
  log::info(acked ? "message acked without a new row: its task has this very message"
                  : "message carries the headers of a retry",
            {{"as", to_word(item.as)},
             {"id", item.task.value},
             {"queue", item.queue},
             {"message_id", item.message_id},
             {"reason", item.reason}});
  if (!(acked ? acked_ : taken_in_).is_news(item.queue)) return;
  record_(acked ? "known_message_acked" : "retry_headers_copied", item.queue,
          std::string(to_word(item.as)) + " of task " + item.task.str() + ": " + item.reason);
}

void Recognized::refused_publish(TaskId id, int attempt, const std::string& queue) {
  ++refused_;
  log::info("dead letter of a publish that its full queue refused: acked, the task is published again",
            {{"id", id.value}, {"attempt", attempt}, {"queue", queue}});
  if (!refusing_.is_news(queue)) return;
  log::warn("a full queue refuses publishes and dead-letters them as well: use overflow reject-publish",
            {{"queue", queue}});
  record_("refused_publish_dead_lettered", queue,
          "the queue is full, and x-overflow reject-publish-dlx dead-letters what it refuses: each try of a "
          "retry comes back at once and changes nothing. Set overflow: reject-publish");
}

void Recognized::inserted(const Task& task) {
  const bool published_here =
      task.kind == Kind::retry && task.exchange == failed_ && task.error_queue.empty();
  if (!published_here || task.queue.empty()) return;
  ++without_origin_;
  if (!without_.is_news(task.queue)) return;
  log::warn("a failure came without its origin: its retries lose the routing key", {{"queue", task.queue}});
  record_(
      "origin_missing", task.queue,
      "a consumer published a failure to " + failed_ +
          " without retry-origin-exchange and retry-origin-routing-key: its retries have the queue's name "
          "as routing key (docs/operations.md)");
}

}  // namespace rung::bridge
