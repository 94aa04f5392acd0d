#include "src/store/attachments.h"

#include <algorithm>

namespace rung {
namespace {

// If nothing else changes, checked_at is written this often; if an answer is awaited (then there is a count),
// with each look.
constexpr Ms kCheckedWithin{std::chrono::minutes{1}};
// A message counted as published may have been published so long before: the management API's counters are as
// old (collect_statistics_interval, 5 s by default, twice).
constexpr Ms kCounterAge{15'000};

std::string what_is(const AttachmentRecord& record) {
  if (record.state == AttachmentState::gone) return "there is no queue " + record.queue;
  return "queue " + record.queue + " is not attached (" + record.detail + ")";
}

// "silence_held" and "silence_resumed": see docs/operations.md.
SystemEvent event_of(const AttachmentRecord& now) {
  if (now.state != AttachmentState::attached)
    return {"silence_held", now.queue,
            what_is(now) + ": silence of its deliveries is held open, it is no success"};
  return {
      "silence_resumed", now.queue,
      "attached again: silence counts for deliveries from now on; those made before stay open until they are "
      "answered or a person decides: rung list --state awaiting --queue " +
          now.queue};
}

// Whether it is attached. Without a state that changes nothing.
AttachmentChange see_state(const std::optional<AttachmentRecord>& before, const AttachmentSighting& seen,
                           EpochMs now) {
  if (!seen.state) return {};
  // Not `now`: a later look must not count as older than this one because this one was written late.
  const EpochMs since = std::min(seen.seen_at, now);
  if (!before || before->state == AttachmentState::unattached) {
    if (seen.state != AttachmentState::attached && !seen.was_attached) return {};  // it never was
    AttachmentRecord record{seen.queue, *seen.state, since, {}, seen.detail, since};
    if (seen.state == AttachmentState::attached) return {record, {}};
    return {record, event_of(record)};
  }
  // A failure says nothing about the present, neither now nor as the only thing that is known.
  const bool looked = before->detail != kDeadLetterArrived;
  const bool stepped_back = before->checked_at > now;  // the database's clock
  if (seen.by_failure || (looked && !stepped_back && seen.seen_at < before->checked_at))
    return {};  // another has looked later
  AttachmentRecord record = *before;
  record.detail = seen.detail;
  const bool was = before->state == AttachmentState::attached;
  const bool is = seen.state == AttachmentState::attached;
  if (seen.state != before->state) {
    record.state = *seen.state;
    record.since = since;
    if (is) record.attached_at = now;
  }
  const bool differs = !(record == *before);
  if (!differs && !seen.count && since - before->checked_at < kCheckedWithin) return {};
  record.checked_at = since;
  if (was == is) return {record, {}};
  return {record, event_of(record)};
}

}  // namespace

QueueReading read_on(const std::optional<QueueReading>& before, const QueueCount& count, EpochMs seen_at) {
  QueueReading next = before.value_or(QueueReading{});
  if (seen_at <= next.seen_at) return next;  // another has looked later
  const auto& [ready, consumers, published] = count;
  const bool comparable = next.mark && published && *published >= *next.mark;
  const bool read = ready == 0 || (comparable && ready <= *published - *next.mark);
  const EpochMs until = ready == 0 ? seen_at : read ? next.marked_at - kCounterAge : EpochMs{};
  if (until > next.until) {
    if (next.ready > 0) {  // the look before this one found some of it unread
      next.from = next.until;
      next.at = seen_at;
    }
    next.until = until;
  }
  if (read || !comparable) {
    next.mark = published;
    next.marked_at = seen_at;
  }
  next.ready = ready;
  next.consumers = consumers;
  next.seen_at = seen_at;
  return next;
}

std::optional<EpochMs> read_at(const QueueReading& reading, EpochMs published) {
  if (published >= reading.until) return std::nullopt;
  return published >= reading.from ? std::max(published, reading.at) : published;
}

std::string unread_because(const std::string& queue, const QueueReading& reading) {
  const std::string wait =
      std::to_string(reading.ready) + (reading.ready == 1 ? " message waits in it" : " messages wait in it");
  return "queue " + queue + (reading.consumers == 0 ? " has no consumer, and " + wait : ": " + wait);
}

AttachmentChange see_attachment(const std::optional<AttachmentRecord>& before, const AttachmentSighting& seen,
                                EpochMs now) {
  AttachmentChange out = see_state(before, seen, now);
  auto reading = before ? before->reading : std::nullopt;
  if (reading && reading->seen_at > now) reading.reset();  // the database's clock has stepped back since
  if (out.record) out.record->reading = reading;
  if (!seen.count) return out;
  const QueueReading next = read_on(reading, *seen.count, seen.seen_at);
  if (reading == next) return out;
  if (!out.record)
    out.record = before.value_or(AttachmentRecord{seen.queue, AttachmentState::unattached, now, {}, "", {}});
  out.record->reading = next;
  if (out.record->state == AttachmentState::unattached) out.record->checked_at = next.seen_at;
  return out;
}

std::string held_because(const AttachmentRecord* known, EpochMs delivered_at) {
  if (known == nullptr || known->state == AttachmentState::unattached) return {};
  if (known->state != AttachmentState::attached)
    return what_is(*known) + " since " + format_utc(known->since) + " UTC";
  if (!known->attached_at || delivered_at >= *known->attached_at) return {};
  return "queue " + known->queue + " was not attached until " + format_utc(*known->attached_at) +
         " UTC, after the delivery: a failure may have been dropped";
}

}  // namespace rung
