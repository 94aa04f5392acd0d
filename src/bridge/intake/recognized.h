// Messages at the intake that Rung recognizes: repeats of what it has, messages that carry the headers of one
// of its deliveries, and dead letters of publishes that a full queue refused; and failures without an origin.
// Each is counted; the first of a queue leaves an event (retry_events).
// Thread: the loop's.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/bridge/base/observers.h"
#include "src/core/base/ids.h"
#include "src/core/task/task.h"

namespace rung::bridge {

class Recognized {
 public:
  enum class As : std::uint8_t {
    // Acked without a new row: the digest proves that the row has this very message.
    duplicate,  // taken in before
    repeat,     // the failure of an attempt that has ended
    // Taken in, or recorded.
    changed,    // a retry that came back with other headers or properties: its task has them now
    child,      // another message with the headers of a retry: a task of its own, on the same level
    elsewhere,  // the same in another queue: a task of its own, from the first level
  };
  static constexpr std::size_t kKinds = 5;
  using Counts = std::array<std::int64_t, kKinds>;
  static std::string_view to_word(As as);

  struct Item {
    As as = As::duplicate;
    TaskId task;  // that it was recognized by
    std::string queue, message_id;
    std::string reason;
  };

  Recognized(const std::string& prefix, RecordEvent record)
      : failed_(prefix + ".failed"), record_(std::move(record)) {}

  void add(const Item& item);
  // The broker answered that publish with a nack, and its attempt was taken back; a queue with x-overflow
  // reject-publish-dlx dead-letters the message all the same. No consumer has seen it, and its task is
  // published again, so it is acked without a change.
  void refused_publish(TaskId id, int attempt, const std::string& queue);
  // A new row. A failure that a consumer published to <prefix>.failed without saying by which exchange and
  // routing key the message came: its retries get the queue's name as routing key, and nothing knows the
  // original one any more.
  void inserted(const Task& task);
  const Counts& counts() const { return counts_; }
  // Since the start.
  std::int64_t refused_publishes() const { return refused_; }
  std::int64_t without_origin() const { return without_origin_; }

 private:
  const std::string failed_;  // the exchange
  const RecordEvent record_;
  Counts counts_{};
  std::int64_t refused_ = 0, without_origin_ = 0;
  OncePerName acked_, taken_in_, refusing_, without_;  // queues
};

}  // namespace rung::bridge
