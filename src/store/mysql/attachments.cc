// Whether the failures of queues reach us.
#include <algorithm>
#include <string>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {
namespace {

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

std::optional<AttachmentRecord> record_of(const AttachmentRecords& records, const std::string& queue) {
  const auto it = records.find(queue);
  return it == records.end() ? std::nullopt : std::optional(it->second);
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

AttachmentRecords MysqlStore::attachments(std::span<const std::string> queues) {
  return read_records(*session_, queues, false);
}

// Usually nothing changes: then nothing is locked.
void MysqlStore::see_attachments(std::span<const AttachmentSighting> seen) {
  if (seen.empty()) return;
  std::vector<std::string> queues;
  std::vector<AttachmentSighting> ordered;
  for (const AttachmentSighting& one : seen) {
    ordered.push_back(one);
    ordered.back().detail = clean_utf8(one.detail, kDetailBytes);
  }
  std::ranges::sort(ordered, {}, &AttachmentSighting::queue);  // every transaction locks in the same order
  for (const AttachmentSighting& one : ordered) queues.push_back(one.queue);
  // Whether anything changes; writes it if the rows are locked.
  const auto see = [&](bool lock) {
    AttachmentRecords records = read_records(*session_, queues, lock);
    const EpochMs now = session_->now();
    bool changes = false;
    for (const AttachmentSighting& one : ordered) {
      const AttachmentChange change = see_attachment(record_of(records, one.queue), one, now);
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
