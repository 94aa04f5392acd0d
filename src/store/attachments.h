// What all instances know about whether the failures of queues reach us, so that none takes silence for a
// success where a failure could not have arrived. Thread, errors: store.h.
#pragma once

#include <array>
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
enum class AttachmentState : std::uint8_t {
  attached = 1,
  detached,
  gone,       // there is no such queue
  unattached  // it has never been attached, as far as is known: the row says how far it has been read
};
template <>
inline constexpr std::array<std::string_view, 4> kWords<AttachmentState>{"attached", "detached", "gone",
                                                                         "unattached"};

// What is in a queue, as the broker says.
struct QueueCount {
  std::int64_t ready = 0, consumers = 0;
  // How many messages were published to it so far, some seconds ago; none: not known, or they don't leave in
  // that order.
  std::optional<std::int64_t> published = {};
};
// How far a queue has been read, by all looks.
struct QueueReading {
  std::int64_t ready = 0, consumers = 0;  // at the latest look
  EpochMs until;                          // what was published before has been read
  // What was published between `from` and `until` was found unread by some look, and read by one at `at`.
  EpochMs from, at;
  EpochMs seen_at;  // the latest look
  // QueueCount::published at marked_at. Where as many were published since as wait in it now, or more, all
  // that was in it then is gone. None: only of an empty queue it is known how far it has been read.
  std::optional<std::int64_t> mark = {};
  EpochMs marked_at = {};
  bool operator==(const QueueReading&) const = default;
};
QueueReading read_on(const std::optional<QueueReading>& before, const QueueCount& count, EpochMs seen_at);
// When a message that was published then was read, at the latest; none: it may still be unread.
std::optional<EpochMs> read_at(const QueueReading& reading, EpochMs published);
// "queue orders has no consumer, and 300 messages wait in it": why it has not been read.
std::string unread_because(const std::string& queue, const QueueReading& reading);

// One row of rung_attachments: a queue that has been attached at some time, or has had deliveries.
struct AttachmentRecord {
  std::string queue;
  AttachmentState state = AttachmentState::attached;
  EpochMs since;                       // start of the state, as far as it was seen
  std::optional<EpochMs> attached_at;  // when it was last seen to be attached again; none: it always was
  std::string detail;                  // attached: by what. else: where its dead letters go
  EpochMs checked_at;  // the latest look that told; of a queue without deliveries to about a minute
  std::optional<QueueReading> reading = {};  // none: no look has told
  bool operator==(const AttachmentRecord&) const = default;
};

using AttachmentRecords = std::map<std::string, AttachmentRecord, std::less<>>;  // by queue

// What somebody saw.
struct AttachmentSighting {
  std::string queue;
  std::optional<AttachmentState> state = AttachmentState::attached;  // none: only `count` is known
  std::string detail;
  EpochMs seen_at;  // not later than what was seen, by the database's clock
  // Not a look at the broker: a failure arrived, so the queue was attached when it was sent. Only tells of
  // queues of which nothing was known.
  bool by_failure = false;
  // The queue counts as attached before, although nothing was known of it: rung detach has just detached it,
  // or the sidecar saw it attached before it could write that down.
  bool was_attached = false;
  std::optional<QueueCount> count = {};
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
// `known`: nullptr = nothing is known of the queue.
std::string held_because(const AttachmentRecord* known, EpochMs delivered_at);

// A task that awaits an answer.
struct Awaiting {
  std::optional<EpochMs> published_at;  // none: not recorded
  std::optional<Silence> said;          // Task::said
};

// For so long after a silence a check of its queue is awaited; then it counts without one.
inline constexpr Ms kUnverifiedSilence{std::chrono::minutes{5}};

inline constexpr Ms kAttachmentsKept = std::chrono::hours{24 * 90};  // of queues nobody looks at any more

}  // namespace rung
