// Messages at the intake that Rung recognizes: repeats of what it has, and messages that carry the headers of
// one of its deliveries. Each is logged and counted; the first of a queue leaves an event (retry_events).
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
  const Counts& counts() const { return counts_; }

 private:
  const RecordEvent record_;
  Counts counts_{};
  OncePerName acked_, taken_in_;  // queues
};

}  // namespace rung::bridge
