// Queues: their pauses, what instances share about their gates (breakers, notes for people), the values that
// rate_by is by, and whether their failures reach us.
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "src/core/base/result.h"
#include "src/core/base/utf8.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kReasonBytes = 1000;

std::optional<GateState::Hold> hold_from(Fields& row) {
  std::optional<EpochMs> since, until;
  std::string reason;
  row >> since >> until >> reason;
  if (!since || !until) return std::nullopt;
  return GateState::Hold{*since, *until, reason};
}

// The columns of gate_states.
GateState state_at(const ::sql::ResultSet& row) {
  GateState state;
  Breaker& breaker = state.breaker;
  std::string word, detail;
  Fields fields(row);
  fields >> state.queue >> word >> breaker.since >> breaker.until >> breaker.reason >> detail;
  const auto known = from_word<Breaker::State>(word);
  breaker.state = known.value_or(Breaker::State::closed);
  const bool whole = read_detail(breaker, detail);
  // The columns apply, so that a breaker that is open remains it.
  if (is_closed_gate(breaker) && breaker.opened_at.ms == 0) breaker.opened_at = breaker.since;
  state.retry_after = hold_from(fields);
  state.outside = hold_from(fields);
  state.limited = hold_from(fields);
  state.damaged = !whole || !known;
  fields >> state.seen_at;
  return state;
}

using States = std::map<std::string, GateState>;  // by queue

// With their rows locked: all in one statement, in one order, so that two batches don't deadlock.
States lock_existing(Session& session, std::span<const std::string> queues) {
  States out;
  const Sql lock = render("gate_states") + render("gate_states.lock", {{"queues", queues}});
  for (GateState& state : session.all(lock, state_at)) out[state.queue] = std::move(state);
  return out;
}

States lock_states(Session& session, std::span<const std::string> queues, EpochMs now) {
  States out = lock_existing(session, queues);
  Rows missing;
  for (const std::string& queue : queues) {
    if (out.contains(queue)) continue;
    missing.row() << queue_key(Sql::of(queue)) << ""
                  << "" << now;
  }
  if (missing.empty()) return out;
  session.exec(render("gates_create", {{"rows", missing.done()}}));
  out = lock_existing(session, queues);
  for (const std::string& queue : queues) {
    if (!out.contains(queue)) throw Again{"the row of a queue's gates is missing"};
  }
  return out;
}

void write_states(Session& session, std::span<const GateState> states) {
  Rows rows;
  for (const GateState& state : states) {
    const Breaker& breaker = state.breaker;
    rows.row() << queue_key(Sql::of(state.queue)) << breaker.state
               << (breaker.since.ms == 0 ? Sql::null() : Sql::of(breaker.since)) << breaker.until
               << clean_utf8(breaker.reason, kReasonBytes) << detail_json(breaker);
    for (const auto& hold : {state.retry_after, state.outside, state.limited}) {
      rows << (hold ? Sql::of(hold->since) : Sql::null()) << (hold ? Sql::of(hold->until) : Sql::null())
           << (hold ? clean_utf8(hold->reason, 255) : "");
    }
    rows << state.seen_at;
  }
  if (!rows.empty()) session.exec(render("gates_write", {{"rows", rows.done()}}));
}

// The columns of `pauses`.
constexpr auto pause_at = row_of(&Pause::queue, &Pause::since, &Pause::until, &Pause::who, &Pause::reason,
                                 &Pause::resumed_by, &Pause::over);

std::optional<Pause> lock_pause(Session& session, const std::string& queue) {
  return session.first(render("pauses") + render("pauses.lock", {{"queue", queue}}), pause_at);
}

void write_pause(Session& session, const Pause& pause) {
  session.exec(render("pause_write", {{"queue", pause.queue},
                                      {"since", pause.since},
                                      {"until", pause.until},
                                      {"who", pause.who},
                                      {"reason", pause.reason},
                                      {"resumed_by", pause.resumed_by}}));
}

constexpr std::size_t kDetailBytes = 1000;

AttachmentRecords read_records(Session& session, std::span<const std::string> queues, bool lock) {
  Sql sql = render("attachments");
  if (!queues.empty()) sql += render("attachments.queues", {{"queues", queues}});
  if (lock) sql += render("for_update");
  AttachmentRecords records;
  session.each(sql, [&](const ::sql::ResultSet& row) {
    AttachmentRecord record;
    std::string state;
    std::optional<std::int64_t> ready;
    QueueReading reading;
    Fields(row) >> record.queue >> state >> record.since >> record.attached_at >> record.detail >>
        record.checked_at >> ready >> reading.consumers >> reading.until >> reading.from >> reading.at >>
        reading.seen_at >> reading.mark >> reading.marked_at;
    const auto known = from_word<AttachmentState>(state);
    if (!known) return;  // a later version's word
    if (!queues.empty() && std::ranges::find(queues, record.queue) == queues.end()) return;
    record.state = *known;
    reading.ready = ready.value_or(0);
    if (ready) record.reading = reading;
    records[record.queue] = record;
  });
  return records;
}

void write_record(Session& session, const AttachmentRecord& record) {
  Rows rows;
  rows.row() << queue_key(Sql::of(record.queue)) << record.state << record.since << record.attached_at
             << clean_utf8(record.detail, kDetailBytes) << record.checked_at;
  const QueueReading reading = record.reading.value_or(QueueReading{});
  const auto count = [&](std::int64_t number) { return record.reading ? Sql::of(number) : Sql::null(); };
  rows << count(reading.ready) << count(reading.consumers) << reading.until << reading.from << reading.at
       << reading.seen_at << reading.mark << reading.marked_at;
  session.later(render("attachments_write", {{"rows", rows.done()}}));
}

}  // namespace

std::vector<GateState> MysqlStore::gate_states(EpochMs changed_since) {
  return session_->all(render("gate_states") + render("gates.changed", {{"since", changed_since}}), state_at);
}

std::vector<GateState> MysqlStore::change_gates(const GateBatch& batch) {
  RUNG_REQUIRE(batch.queues.size() <= GateBatch::kMost);
  if (batch.queues.empty()) return {};
  return session_->transaction(
      [&] {
        const bool again = !batch.id.empty() && is_repeated(*session_, "gates", batch.maker, batch.id);
        const EpochMs now = session_->now();
        auto states = lock_states(*session_, batch.queues, now);
        std::vector<GateState> out, changed;
        std::vector<SystemEvent> events;
        for (const std::string& queue : batch.queues) {
          GateState& state = states.at(queue);
          const GateState before = state;
          if (!again) std::ranges::move(batch.change(state, now), std::back_inserter(events));
          if (!(state == before)) {
            state.damaged = false;
            changed.push_back(state);
          }
          out.push_back(state);
        }
        write_states(*session_, changed);
        for (const SystemEvent& event : events) write_event(*session_, event);
        return out;
      },
      "gates");
}

void MysqlStore::record_change(const AuditRow& change, const SystemEvent& event) {
  write_audit({&change, 1});
  write_event(*session_, event);
}

Pause MysqlStore::pause(const NewPause& asked) {
  NewPause request = asked;
  request.who = clean_utf8(asked.who, 255);
  return session_->transaction([&] {
    const auto before = lock_pause(*session_, request.queue);
    const EpochMs now = session_->now();
    const auto after = paused(before, request, now);
    if (!after) return *before;
    write_pause(*session_, *after);
    session_->exec(render("pauses_forget", {{"before", now - kPausesKept}}));
    record_change(audit_of(before, *after, after->reason, now), event_of(*after, after->reason));
    return *after;
  });
}

Resumed MysqlStore::resume(const std::string& queue, const std::string& by, const std::string& reason) {
  const std::string who = clean_utf8(by, 255);
  return session_->transaction([&] {
    const auto before = lock_pause(*session_, queue);
    States states = lock_existing(*session_, {&queue, 1});
    const EpochMs now = session_->now();
    const auto hold = hold_in_force(states[queue], now);
    const Resumed ended{resumed(before, who, now), resumed(hold, who, now)};
    if (ended.pause) {
      write_pause(*session_, *ended.pause);
      record_change(audit_of(before, *ended.pause, reason, now), event_of(*ended.pause, reason));
    }
    if (ended.retry_after) {
      session_->exec(render("hold_end", {{"queue", queue}, {"until", now}}));
      record_change(audit_of(hold, *ended.retry_after, reason, now), event_of(*ended.retry_after, reason));
    }
    return ended;
  });
}

std::vector<Pause> MysqlStore::pauses(EpochMs changed_since) {
  return session_->all(render("pauses") + render("gates.changed", {{"since", changed_since}}), pause_at);
}

std::map<TaskId, std::string> MysqlStore::header_values(std::span<const TaskId> ids,
                                                        const std::string& header) {
  std::map<TaskId, std::string> out;
  if (ids.empty()) return out;
  const Sql headers = render("rule_headers", {{"ids", ids}});
  for (const auto& [id, text] : session_->rows<TaskId, std::string>(headers))
    out.emplace(id, rule_headers_from(text)[header]);
  return out;
}

// --- whether failures reach us

AttachmentRecords MysqlStore::attachments(std::span<const std::string> queues) {
  return read_records(*session_, queues, false);
}

// Usually nothing changes: then nothing is locked.
void MysqlStore::see_attachments(std::span<const AttachmentSighting> seen) {
  if (seen.empty()) return;
  std::vector<AttachmentSighting> ordered(seen.begin(), seen.end());
  std::ranges::sort(ordered, {}, &AttachmentSighting::queue);  // every transaction locks in the same order
  std::vector<std::string> queues;
  for (AttachmentSighting& one : ordered) {
    one.detail = clean_utf8(one.detail, kDetailBytes);
    queues.push_back(one.queue);
  }
  // Whether anything changes; writes it if the rows are locked.
  const auto see = [&](bool lock) {
    AttachmentRecords records = read_records(*session_, queues, lock);
    const EpochMs now = session_->now();
    bool changes = false;
    for (const AttachmentSighting& one : ordered) {
      const auto before = records.find(one.queue);
      const AttachmentChange change =
          see_attachment(before == records.end() ? std::nullopt : std::optional(before->second), one, now);
      if (!change.record) continue;
      changes = true;
      records[one.queue] = *change.record;
      if (lock) write_record(*session_, *change.record);
      if (lock && change.event) write_event(*session_, *change.event);
    }
    if (lock) session_->exec(render("attachments_forget", {{"before", now - kAttachmentsKept}}));
    return changes;
  };
  if (see(false)) session_->transaction([&] { see(true); });
}

std::map<TaskId, Awaiting> MysqlStore::awaiting(std::span<const TaskId> ids) {
  if (ids.empty()) return {};
  std::map<TaskId, Awaiting> out;
  const Sql sql = render("awaiting", {{"ids", ids}});
  using Time = std::optional<EpochMs>;
  for (const auto& [id, published_at, said] : session_->rows<TaskId, Time, std::optional<Silence>>(sql))
    out[id] = {published_at, said};
  return out;
}

// A call for each queue: a range of an index. GROUP BY reads all that await (45 ms for 100,000).
std::vector<std::string> MysqlStore::awaiting_queues(std::size_t most) {
  std::vector<std::string> out;
  while (out.size() < most) {
    const std::string last = out.empty() ? "" : out.back();
    const auto next = session_->rows<std::string>(render("awaiting_queue", {{"queue", last}}));
    if (next.empty()) break;
    out.push_back(next[0]);
  }
  return out;
}

std::map<std::string, std::int64_t> MysqlStore::held_silences() {
  std::map<std::string, std::int64_t> out;
  const Sql held = render("held_silences", {{"shards", kAllShards}});
  for (const auto& [queue, tasks] : session_->rows<std::string, std::int64_t>(held))
    out.emplace(queue, tasks);
  return out;
}

}  // namespace rung::mysql
