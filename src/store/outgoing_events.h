// Events for other systems: published to the exchange <prefix>.events if the config's `events` names their
// kind. The transaction of what happened writes a row; whoever publishes it deletes the row when the broker
// has it. So none is lost, and one can be published twice, with the same id.
// Thread, errors: store.h; values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/task/task.h"

namespace rung {

// Persisted as words. NOTE: append only.
enum class OutgoingKind : std::uint8_t { cause_appeared, cause_worse, task_parked, bulk_ended };
inline constexpr std::array<std::string_view, 4> kOutgoingWords{"cause_appeared", "cause_worse",
                                                                "task_parked", "bulk_ended"};
constexpr std::string_view to_word(OutgoingKind kind) {
  return kOutgoingWords[static_cast<std::size_t>(kind)];
}
// Inline: the config reads them too, and links no store.
inline std::optional<OutgoingKind> outgoing_kind_from(std::string_view word) {
  for (std::size_t i = 0; i < kOutgoingWords.size(); ++i) {
    if (kOutgoingWords[i] == word) return static_cast<OutgoingKind>(i);
  }
  return std::nullopt;
}

// Property `type` of the messages: "rung.task_parked".
inline constexpr std::string_view kEventType = "rung.";
inline bool is_event_type(std::string_view type) {
  return type.starts_with(kEventType) && outgoing_kind_from(type.substr(kEventType.size())).has_value();
}

class OutgoingKinds {
 public:
  void add(OutgoingKind kind) { bits_ |= bit(kind); }
  bool holds(OutgoingKind kind) const { return (bits_ & bit(kind)) != 0; }
  bool empty() const { return bits_ == 0; }

 private:
  static constexpr unsigned bit(OutgoingKind kind) { return 1U << static_cast<unsigned>(kind); }
  unsigned bits_ = 0;
};

struct OutgoingEvent {
  std::int64_t id = 0;  // given by the store
  EpochMs at;           // given by the store
  OutgoingKind kind = OutgoingKind::task_parked;
  std::string subject;  // the id of the task, the cause or the bulk
  std::string queue;    // of the task or the cause; "" = none
};

// Whether a change parks the task. `before`: nullptr for a new one.
inline bool is_parked_by(const Task* before, const Task& after) {
  return after.state == State::parked && (before == nullptr || before->state != State::parked);
}
inline OutgoingEvent parked_event(const Task& task) {
  return {0, {}, OutgoingKind::task_parked, task.id.str(), task.queue};
}

class OutgoingEventStore {
 public:
  virtual ~OutgoingEventStore() = default;

  // The oldest first. Kinds that a later version added are left out.
  virtual Result<std::vector<OutgoingEvent>> outgoing_events(int limit) = 0;
  virtual Result<void> forget_outgoing_events(std::span<const std::int64_t> ids) = 0;
  // Deletes at most `limit` that nobody has published; returns how many.
  virtual Result<int> drop_outgoing_events(EpochMs before, int limit) = 0;
};

}  // namespace rung
