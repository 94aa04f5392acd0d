#include <algorithm>
#include <utility>

#include "tests/support/memory/memory_store.h"

namespace rung {

bool MemoryBulks::Row::names(TaskId id) const { return std::ranges::binary_search(ids, id); }

void MemoryBulks::Row::move_on(const BulkStepCounts& counts, double rate, EpochMs now) {
  bulk.last = counts.last;
  bulk.done += counts.done;
  bulk.applied += counts.applied;
  bulk.refused += counts.refused;
  // As bulk_step does it.
  next = rate > 0 ? std::max(next, now - Ms{200}) +
                        Ms{static_cast<std::int64_t>(1000.0 * static_cast<double>(counts.done) / rate)}
                  : now;
  until = std::max(next, now) + Ms{2000};
}

Bulk MemoryBulks::add(Row row) {
  row.bulk.id = static_cast<std::int64_t>(rows_.size()) + 1;
  return rows_.emplace_back(std::move(row)).bulk;
}

MemoryBulks::Row* MemoryBulks::find(std::int64_t id) {
  if (id < 1 || id > static_cast<std::int64_t>(rows_.size())) return nullptr;
  Row& row = rows_[static_cast<std::size_t>(id - 1)];
  return row.gone ? nullptr : &row;
}

MemoryBulks::Row* MemoryBulks::find_running(const BulkStep& step) {
  Row* const row = find(step.bulk);
  const bool may = row != nullptr && row->bulk.state == BulkState::running &&
                   row->bulk.runner == step.runner && row->bulk.last == step.from;
  return may ? row : nullptr;
}

bool MemoryBulks::is_in_open(TaskId id) const {
  return std::ranges::any_of(rows_, [&](const Row& row) { return row.is_open() && row.names(id); });
}

bool MemoryBulks::is_in_open_redrive(TaskId id) const {
  return std::ranges::any_of(rows_, [&](const Row& row) {
    return row.is_open() && row.bulk.action == BulkAction::redrive && row.bulk.last < id && row.names(id);
  });
}

std::int64_t MemoryBulks::purge(EpochMs before) {
  std::int64_t purged = 0;
  for (Row& row : rows_) {
    const bool old = !row.is_open() && row.bulk.finished_at && *row.bulk.finished_at < before;
    if (!old || row.gone) continue;
    row.gone = true;
    row.ids.clear();
    ++purged;
  }
  return purged;
}

Bulk MemoryStore::create_bulk(const NewBulk& asked) {
  return call([&] {
    MemoryBulks::Row row;
    Bulk& bulk = row.bulk;
    static_cast<BulkRequest&>(bulk) = asked;
    bulk.state = asked.paused ? BulkState::paused : BulkState::running;
    bulk.created_at = row.next = db_.now_();
    const Filter filter = of_bulk(asked);
    for (const auto& [id, task] : db_.tasks_.rows()) {
      if (asked.limit > 0 && static_cast<std::int64_t>(row.ids.size()) == asked.limit) break;
      if (asked.action == BulkAction::redrive && db_.bulks_.is_in_open_redrive(id)) continue;
      if (shows(filter, task.task)) row.ids.push_back(id);
    }
    bulk.total = static_cast<std::int64_t>(row.ids.size());
    const Bulk created = db_.bulks_.add(std::move(row));
    if (created.total > 0) db_.records_.write(audit_of_new(created));
    return created;
  });
}

void MemoryStore::bulk_ended(const Bulk& bulk) {
  if (!has_ended(bulk)) return;
  record({"bulk_ended", std::to_string(bulk.id), describe_end(bulk)});
}

std::optional<Bulk> MemoryStore::bulk(std::int64_t id) {
  return call([&] {
    std::optional<Bulk> out;
    if (const auto* row = db_.bulks_.find(id); row != nullptr) out = row->bulk;
    return out;
  });
}

std::optional<Bulk> MemoryStore::set_bulk(const BulkControl& control) {
  return call([&] {
    std::optional<Bulk> out;
    MemoryBulks::Row* const row = db_.bulks_.find(control.id);
    if (row == nullptr) return out;
    Bulk& bulk = row->bulk;
    if (row->is_open()) {
      const BulkState before = bulk.state;
      bulk.state = control.state;
      bulk.runner.clear();
      bulk.changed_at = db_.now_();
      bulk.changed_by = control.who;
      bulk.changed_because = control.reason;
      if (control.rate) bulk.rate = *control.rate;
      if (control.rate) row->next = db_.now_();
      if (bulk.state == BulkState::aborted) bulk.finished_at = db_.now_();
      if (before != bulk.state || control.rate) {
        db_.records_.write(audit_of_change(bulk));
        record(event_of_change(bulk));
      }
      bulk_ended(bulk);
    }
    out = bulk;
    return out;
  });
}

std::optional<Bulk> MemoryStore::take_bulk(const std::string& runner, Ms ttl) {
  return call([&] {
    std::optional<Bulk> out;
    const EpochMs now = db_.now_();
    MemoryBulks::Row* best = nullptr;
    for (MemoryBulks::Row& row : db_.bulks_.rows()) {
      const bool free = row.bulk.runner.empty() || row.bulk.runner == runner || row.until <= now;
      const bool due = row.bulk.state == BulkState::running && row.next <= now;
      if (!due || !free) continue;
      if (best == nullptr || row.next < best->next) best = &row;
    }
    if (best == nullptr) return out;
    best->bulk.runner = runner;
    best->until = now + ttl;
    out = best->bulk;
    return out;
  });
}

std::vector<TaskId> MemoryStore::bulk_next(const BulkStep& step, int limit) {
  return call([&] {
    std::vector<TaskId> out;
    const auto* const frozen = db_.bulks_.find(step.bulk);
    if (frozen == nullptr) return out;
    for (const TaskId id : frozen->ids) {
      if (id > step.from && static_cast<int>(out.size()) < limit) out.push_back(id);
    }
    if (auto* row = db_.bulks_.find_running(step); out.empty() && row != nullptr) {
      row->bulk.state = BulkState::done;
      row->bulk.finished_at = db_.now_();
      row->bulk.runner.clear();
      bulk_ended(row->bulk);
    }
    return out;
  });
}

std::vector<SentTask> MemoryStore::sent_by_bulk(std::int64_t id, int limit) {
  return call([&] {
    std::vector<SentTask> out;
    const auto* const row = db_.bulks_.find(id);
    if (row == nullptr) return out;
    int seen = 0;
    for (auto it = row->ids.rbegin(); it != row->ids.rend() && seen < limit; ++it) {
      if (row->bulk.last < *it) continue;
      ++seen;
      const auto before = row->changed.find(*it);
      const MemoryTask* task = db_.tasks_.find(*it);
      if (before == row->changed.end() || task == nullptr) continue;
      const Task& now = task->task;
      SentTask sent{*it, now.queue, now.state, is_silence_held(now), now.silence, {}, {}, {}};
      sent.outcome = Outcome::pending;
      const auto first = task->attempts.find(before->second + 1);
      if (first != task->attempts.end()) {
        sent.outcome = first->second.outcome;
        sent.published_at = first->second.published_at;
        sent.error = first->second.error;
      }
      out.push_back(std::move(sent));
    }
    return out;
  });
}

void MemoryStore::judge_bulk(const BulkStep& step, const BulkVerdict& verdict, Ms pause) {
  using Go = BulkVerdict::Go;
  return call([&] {
    MemoryBulks::Row* const row = db_.bulks_.find_running(step);
    if (row == nullptr) return;
    const EpochMs now = db_.now_();
    if (verdict.go == Go::wait) {
      row->next = now + pause;
      row->until = row->next + Ms{2000};
    }
    if (verdict.go == Go::passed && !row->bulk.canary_done) row->bulk.canary_done = row->bulk.done;
    if (verdict.go != Go::stop) return;
    row->bulk.state = BulkState::stopped;
    row->bulk.stopped_because = verdict.why;
    row->bulk.finished_at = now;
    row->bulk.runner.clear();
    record({"bulk_stopped", std::to_string(step.bulk), verdict.why});
    bulk_ended(row->bulk);
  });
}

}  // namespace rung
