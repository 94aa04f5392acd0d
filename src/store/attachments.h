// What all instances know about whether the failures of queues reach us, so that none takes silence for a
// success where a failure could not have arrived. Thread, errors: store.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/base/ids.h"
#include "src/core/base/result.h"
#include "src/core/base/time.h"
#include "src/core/task/task.h"
#include "src/store/system.h"

namespace rung {

// Persisted as words. NOTE: append only.
enum class AttachmentState : std::uint8_t { attached = 1, detached, gone };  // gone: there is no such queue
std::string_view to_word(AttachmentState);
std::optional<AttachmentState> attachment_state_from(std::string_view word);

// One row of rung_attachments: a queue that has been attached at some time.
struct AttachmentRecord {
  std::string queue;
  AttachmentState state = AttachmentState::attached;
  EpochMs since;                       // start of the state, as far as it was seen
  std::optional<EpochMs> attached_at;  // when it was last seen to be attached again; none: it always was
  std::string detail;                  // attached: by what. else: where its dead letters go
  EpochMs checked_at;                  // the latest look, to about a minute
  bool operator==(const AttachmentRecord&) const = default;
};

// What somebody saw.
struct AttachmentSighting {
  std::string queue;
  AttachmentState state = AttachmentState::attached;
  std::string detail;
  EpochMs seen_at;  // not later than what was seen, by the database's clock
  // Not a look at the broker: a failure arrived, so the queue was attached when it was sent. Only tells of
  // queues of which nothing was known.
  bool by_failure = false;
  // The queue counts as attached before, although nothing was known of it: rung detach has just detached it,
  // or the sidecar saw it attached before it could write that down.
  bool was_attached = false;
};

// AttachmentSighting::detail of a failure that arrived: nobody has looked.
inline constexpr std::string_view kDeadLetterArrived = "a dead letter arrived";

// The record after the sighting, and the event to store with it. None of both: nothing changes. `before`:
// none if nothing was known of the queue. `now`: by the database's clock, not earlier than the sighting's
// answer.
struct AttachmentChange {
  std::optional<AttachmentRecord> record;
  std::optional<SystemEvent> event;
};
AttachmentChange see_attachment(const std::optional<AttachmentRecord>& before, const AttachmentSighting& seen,
                                EpochMs now);

// Why the silence after a delivery at `delivered_at` is no success; "" if a failure would have arrived.
// `known`: nullptr = the queue has never been attached.
std::string held_because(const AttachmentRecord* known, EpochMs delivered_at);

// A queue that the config names.
struct NamedQueue {
  std::string queue;  // or a pattern
  Silence silence;
};
// One that it does not name any more.
struct RemovedQueue {
  std::string queue;
  Silence silence;  // of deliveries made before
  EpochMs removed_at;
  // Only from the call that noticed it: its tasks under way.
  bool is_new = false;
  std::int64_t scheduled = 0, publishing = 0, awaiting = 0;
  bool operator==(const RemovedQueue&) const = default;
};
// What is recorded if tasks of it are under way; none if there are none.
std::optional<SystemEvent> event_of(const RemovedQueue& removed);

class AttachmentStore {
 public:
  virtual ~AttachmentStore() = default;

  // Those of `queues` that have been attached at some time; of all queues if it is empty. In any order.
  virtual Result<std::vector<AttachmentRecord>> attachments(std::span<const std::string> queues) = 0;
  // Writes what changes. Returns the records of these queues.
  virtual Result<std::vector<AttachmentRecord>> see_attachments(std::span<const AttachmentSighting> seen) = 0;
  // When the current attempts of these tasks were confirmed; tasks without that time are left out.
  virtual Result<std::map<TaskId, EpochMs>> published_at(std::span<const TaskId> ids) = 0;
  // The queues of tasks that await an answer: the first `most`, sorted. Of names that differ only in trailing
  // blanks, one.
  virtual Result<std::vector<std::string>> awaiting_queues(std::size_t most) = 0;
  // By queue: tasks whose silence is held open (is_silence_held()).
  virtual Result<std::map<std::string, std::int64_t>> held_silences() = 0;
  // The config names these queues, and no others. Returns those that it has named before.
  virtual Result<std::vector<RemovedQueue>> name_queues(std::span<const NamedQueue> named) = 0;
};

// For so long after a silence a check of its queue is awaited; then it counts without one.
inline constexpr Ms kUnverifiedSilence{std::chrono::minutes{5}};

inline constexpr Ms kAttachmentsKept = std::chrono::hours{24 * 90};  // of queues nobody looks at any more

}  // namespace rung
