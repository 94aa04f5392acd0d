// Whether the failures of queues reach us.
#include <algorithm>
#include <string>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kDetailBytes = 1000;

AttachmentRecords read_records(Session& session, std::span<const std::string> queues, bool lock) {
  std::string sql = render("attachments");
  if (!queues.empty()) sql += ' ' + render("attachments.queues", {{"queues", Literal::texts(queues)}});
  if (lock) sql += ' ' + render("attachments.lock");
  AttachmentRecords records;
  auto row = session.query(sql);
  while (row->next()) {
    const auto state = attachment_state_from(text_at(*row, 2));
    if (!state) continue;  // a later version's word
    const auto time = [&](std::uint32_t column) { return time_at(*row, column).value_or(EpochMs{}); };
    std::string queue = text_at(*row, 1);
    if (!queues.empty() && std::ranges::find(queues, queue) == queues.end()) continue;
    records[queue] = {queue, *state, time(3), time_at(*row, 4), text_at(*row, 5), time(6)};
    if (!row->isNull(7))
      records[queue].reading = {row->getInt64(7), row->getInt64(8), time(9), time(10), time(11), time(12)};
  }
  return records;
}

std::optional<AttachmentRecord> record_of(const AttachmentRecords& records, const std::string& queue) {
  const auto it = records.find(queue);
  return it == records.end() ? std::nullopt : std::optional(it->second);
}

void write_record(Session& session, const AttachmentRecord& record) {
  const Literal queue = Literal::text(record.queue);
  Rows rows;
  rows.row() << queue << length_of(queue) << Literal::text(to_word(record.state))
             << Literal::time(record.since) << Literal::time(record.attached_at)
             << Literal::text(clean_utf8(record.detail, kDetailBytes)) << Literal::time(record.checked_at);
  const QueueReading reading = record.reading.value_or(QueueReading{});
  const auto count = [&](std::int64_t number) {
    return record.reading ? Literal::number(number) : Literal::null();
  };
  rows << count(reading.ready) << count(reading.consumers) << Literal::time(reading.until)
       << Literal::time(reading.from) << Literal::time(reading.at) << Literal::time(reading.seen_at);
  session.exec(render("attachments_write", {{"rows", rows.done()}}));
}

}  // namespace

Result<AttachmentRecords> MysqlStore::attachments(std::span<const std::string> queues) {
  return session_->run_for([&] { return read_records(*session_, queues, false); });
}

// Usually nothing changes: then nothing is locked.
Result<void> MysqlStore::see_attachments(std::span<const AttachmentSighting> seen) {
  if (seen.empty()) return {};
  std::vector<std::string> queues;
  std::vector<AttachmentSighting> ordered;
  for (const AttachmentSighting& one : seen) {
    ordered.push_back(one);
    ordered.back().detail = clean_utf8(one.detail, kDetailBytes);
  }
  std::ranges::sort(ordered, {}, &AttachmentSighting::queue);  // every transaction locks in the same order
  for (const AttachmentSighting& one : ordered) queues.push_back(one.queue);
  const auto changes = [&](const AttachmentRecords& records, EpochMs now) {
    return std::ranges::any_of(ordered, [&](const AttachmentSighting& one) {
      return see_attachment(record_of(records, one.queue), one, now).record.has_value();
    });
  };
  auto read =
      session_->run_for([&] { return std::pair(read_records(*session_, queues, false), session_->now()); });
  if (!read) return tl::unexpected(read.error());
  if (!changes(read->first, read->second)) return {};
  return session_->transaction([&] {
    AttachmentRecords records = read_records(*session_, queues, true);
    const EpochMs now = session_->now();
    for (const AttachmentSighting& one : ordered) {
      const AttachmentChange change = see_attachment(record_of(records, one.queue), one, now);
      if (!change.record) continue;
      write_record(*session_, *change.record);
      records[one.queue] = *change.record;
      if (change.event) write_event(*session_, *change.event);
    }
    session_->exec(render("attachments_forget", {{"before", Literal::time(now - kAttachmentsKept)}}));
  });
}

Result<std::map<TaskId, Awaiting>> MysqlStore::awaiting(std::span<const TaskId> ids) {
  if (ids.empty()) return std::map<TaskId, Awaiting>{};
  return session_->run_for([&] {
    std::map<TaskId, Awaiting> out;
    auto row = session_->query(render("awaiting", {{"ids", Literal::ids(ids)}}));
    while (row->next())
      out.emplace(TaskId{row->getInt64(1)}, Awaiting{time_at(*row, 4), silence_at(*row, 2)});
    return out;
  });
}

// A call for each queue: a range of an index. GROUP BY reads all that await (45 ms for 100,000).
Result<std::vector<std::string>> MysqlStore::awaiting_queues(std::size_t most) {
  return session_->run_for([&] {
    std::vector<std::string> out;
    while (out.size() < most) {
      const std::string last = out.empty() ? "" : out.back();
      auto row = session_->query(render("awaiting_queue", {{"queue", Literal::text(last)}}));
      if (!row->next()) break;
      out.push_back(text_at(*row, 1));
    }
    return out;
  });
}

Result<std::map<std::string, std::int64_t>> MysqlStore::held_silences() {
  return session_->run_for([&] {
    std::map<std::string, std::int64_t> out;
    auto row = session_->query(render("held_silences"));
    while (row->next()) out.emplace(text_at(*row, 1), row->getInt64(2));
    return out;
  });
}

}  // namespace rung::mysql
