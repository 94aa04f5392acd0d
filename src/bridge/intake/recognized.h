// Messages at the intake that Rung recognizes: repeats of what it has, messages that carry the headers of one
// of its deliveries, and dead letters of publishes that a full queue refused. Each is logged and counted; the
// first of a queue leaves an event (retry_events).
// Thread: the loop's.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/bridge/base/observers.h"
#include "src/bridge/base/once_per_name.h"
#include "src/core/base/ids.h"

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

  explicit Recognized(RecordEvent record) : record_(std::move(record)) {}

  void add(const Item& item);
  // The broker answered that publish with a nack, and its attempt was taken back; a queue with x-overflow
  // reject-publish-dlx dead-letters the message all the same. No consumer has seen it, and its task is
  // published again, so it is acked without a change.
  void refused_publish(TaskId id, int attempt, const std::string& queue);
  const Counts& counts() const { return counts_; }
  std::int64_t refused_publishes() const { return refused_; }  // since the start

 private:
  const RecordEvent record_;
  Counts counts_{};
  std::int64_t refused_ = 0;
  OncePerName acked_, taken_in_, refusing_;  // queues
};

}  // namespace rung::bridge
