#include <algorithm>

#include "src/store/memory/memory_store_impl.h"

namespace rung {

MemoryDb::BulkRow* MemoryStore::running_bulk(const BulkStep& step) {
  if (step.bulk < 1 || step.bulk > static_cast<std::int64_t>(db_.bulks_.size())) return nullptr;
  MemoryDb::BulkRow& row = db_.bulks_[static_cast<std::size_t>(step.bulk - 1)];
  const bool may =
      row.bulk.state == BulkState::running && row.bulk.runner == step.runner && row.bulk.last == step.from;
  return may ? &row : nullptr;
}

void MemoryStore::move_on(MemoryDb::BulkRow& row, std::span<const Event> events,
                          const std::vector<Decision>& decisions, double rate, EpochMs now) {
  using Verdict = Decision::Verdict;
  row.bulk.last = std::ranges::max(events, {}, &Event::id).id;
  row.bulk.done += static_cast<std::int64_t>(events.size());
  row.bulk.applied += std::ranges::count(decisions, Verdict::applied, &Decision::verdict);
  row.bulk.refused += std::ranges::count(decisions, Verdict::refused, &Decision::verdict);
  for (const Decision& decision : decisions) {
    if (decision.verdict == Verdict::applied) row.changed[decision.task.id] = decision.task.attempt;
  }
  // As bulk_step does it.
  row.next = rate > 0 ? std::max(row.next, now - Ms{200}) +
                            Ms{static_cast<std::int64_t>(1000.0 * static_cast<double>(events.size()) / rate)}
                      : now;
  row.until = std::max(row.next, now) + Ms{2000};
}

bool MemoryStore::is_in_open_redrive(TaskId id) const {
  return std::ranges::any_of(db_.bulks_, [&](const MemoryDb::BulkRow& row) {
    const bool open = row.bulk.state == BulkState::running || row.bulk.state == BulkState::paused;
    return open && row.bulk.action == BulkAction::redrive && row.bulk.last < id &&
           std::ranges::binary_search(row.ids, id);
  });
}

Result<Bulk> MemoryStore::create_bulk(const NewBulk& asked) {
  return call([&] {
    MemoryDb::BulkRow row;
    Bulk& bulk = row.bulk;
    bulk.id = static_cast<std::int64_t>(db_.bulks_.size()) + 1;
    bulk.action = asked.action;
    bulk.state = asked.paused ? BulkState::paused : BulkState::running;
    bulk.filter_text = asked.filter_text;
    bulk.reason = asked.reason;
    bulk.who = asked.who;
    bulk.elsewhere = asked.elsewhere;
    bulk.even_reported = asked.even_reported;
    bulk.rate = asked.rate;
    bulk.care = asked.care;
    bulk.created_at = row.next = db_.now_locked();
    const Filter filter = of_bulk(asked);
    for (const auto& [id, task] : db_.tasks_) {
      if (asked.limit > 0 && static_cast<std::int64_t>(row.ids.size()) == asked.limit) break;
      if (asked.action == BulkAction::redrive && is_in_open_redrive(id)) continue;
      if (shows(filter, task.task) && has_headers(filter, *task.message)) row.ids.push_back(id);
    }
    bulk.total = static_cast<std::int64_t>(row.ids.size());
    db_.bulks_.push_back(row);
    return bulk;
  });
}

void MemoryStore::bulk_ended(const Bulk& bulk) {
  if (!has_ended(bulk)) return;
  record({0, {}, "", "bulk_ended", std::to_string(bulk.id), describe_end(bulk)});
  write_outgoing({0, {}, OutgoingKind::bulk_ended, std::to_string(bulk.id), ""});
}

Result<std::optional<Bulk>> MemoryStore::bulk(std::int64_t id) {
  return call([&] {
    std::optional<Bulk> out;
    if (id < 1 || id > static_cast<std::int64_t>(db_.bulks_.size())) return out;
    const MemoryDb::BulkRow& row = db_.bulks_[static_cast<std::size_t>(id - 1)];
    if (!row.gone) out = row.bulk;
    return out;
  });
}

Result<std::vector<Bulk>> MemoryStore::bulks(int limit, std::optional<std::int64_t> below) {
  return call([&] {
    std::vector<Bulk> out;
    for (auto it = db_.bulks_.rbegin(); it != db_.bulks_.rend() && static_cast<int>(out.size()) < limit;
         ++it) {
      if (!it->gone && (!below || it->bulk.id < *below)) out.push_back(it->bulk);
    }
    return out;
  });
}

Result<std::optional<Bulk>> MemoryStore::set_bulk(std::int64_t id, BulkState state,
                                                  std::optional<double> rate) {
  return call([&] {
    std::optional<Bulk> out;
    if (id < 1 || id > static_cast<std::int64_t>(db_.bulks_.size())) return out;
    MemoryDb::BulkRow& row = db_.bulks_[static_cast<std::size_t>(id - 1)];
    if (row.gone) return out;
    if (row.bulk.state == BulkState::running || row.bulk.state == BulkState::paused) {
      row.bulk.state = state;
      row.bulk.runner.clear();
      if (rate) row.bulk.rate = *rate;
      if (rate) row.next = db_.now_locked();
      if (state == BulkState::aborted) row.bulk.finished_at = db_.now_locked();
      bulk_ended(row.bulk);
    }
    out = row.bulk;
    return out;
  });
}

Result<std::optional<Bulk>> MemoryStore::take_bulk(const std::string& runner, Ms ttl,
                                                   std::optional<std::int64_t> only) {
  return call([&] {
    std::optional<Bulk> out;
    const EpochMs now = db_.now_locked();
    MemoryDb::BulkRow* best = nullptr;
    for (MemoryDb::BulkRow& row : db_.bulks_) {
      const bool free = row.bulk.runner.empty() || row.bulk.runner == runner || row.until <= now;
      const bool due = row.bulk.state == BulkState::running && row.next <= now;
      if (!due || !free || (only && *only != row.bulk.id)) continue;
      if (best == nullptr || row.next < best->next) best = &row;
    }
    if (best == nullptr) return out;
    best->bulk.runner = runner;
    best->until = now + ttl;
    out = best->bulk;
    return out;
  });
}

Result<std::vector<TaskId>> MemoryStore::bulk_next(const BulkStep& step, int limit) {
  return call([&] {
    std::vector<TaskId> out;
    if (step.bulk < 1 || step.bulk > static_cast<std::int64_t>(db_.bulks_.size())) return out;
    const MemoryDb::BulkRow& frozen = db_.bulks_[static_cast<std::size_t>(step.bulk - 1)];
    for (const TaskId id : frozen.ids) {
      if (id > step.from && static_cast<int>(out.size()) < limit) out.push_back(id);
    }
    if (MemoryDb::BulkRow* row = running_bulk(step); out.empty() && row != nullptr) {
      row->bulk.state = BulkState::done;
      row->bulk.finished_at = db_.now_locked();
      row->bulk.runner.clear();
      bulk_ended(row->bulk);
    }
    return out;
  });
}

Result<std::vector<SentTask>> MemoryStore::sent_by_bulk(std::int64_t id, int limit) {
  return call([&] {
    std::vector<SentTask> out;
    if (id < 1 || id > static_cast<std::int64_t>(db_.bulks_.size())) return out;
    const MemoryDb::BulkRow& row = db_.bulks_[static_cast<std::size_t>(id - 1)];
    const std::map<TaskId, int>& changed = row.changed;
    int seen = 0;
    for (auto it = row.ids.rbegin(); it != row.ids.rend() && seen < limit; ++it) {
      if (row.bulk.last < *it) continue;
      ++seen;
      const auto task = db_.tasks_.find(*it);
      if (!changed.contains(*it) || task == db_.tasks_.end()) continue;
      const Task& now = task->second.task;
      SentTask sent{*it, now.queue, now.state, is_silence_held(now), now.silence, {}, {}, {}};
      sent.outcome = Outcome::pending;
      const auto first = task->second.attempts.find(changed.at(*it) + 1);
      if (first != task->second.attempts.end()) {
        sent.outcome = first->second.outcome;
        sent.published_at = first->second.published_at;
        sent.error = first->second.error;
      }
      out.push_back(std::move(sent));
    }
    return out;
  });
}

Result<void> MemoryStore::judge_bulk(const BulkStep& step, const BulkVerdict& verdict, Ms pause) {
  using Go = BulkVerdict::Go;
  auto done = call([&] {
    MemoryDb::BulkRow* row = running_bulk(step);
    if (row == nullptr) return true;
    const EpochMs now = db_.now_locked();
    if (verdict.go == Go::wait) {
      row->next = now + pause;
      row->until = row->next + Ms{2000};
    }
    if (verdict.go == Go::passed && !row->bulk.canary_done) row->bulk.canary_done = row->bulk.done;
    if (verdict.go != Go::stop) return true;
    row->bulk.state = BulkState::aborted;
    row->bulk.stopped_because = verdict.why;
    row->bulk.finished_at = now;
    row->bulk.runner.clear();
    record({0, {}, "", "bulk_stopped", std::to_string(step.bulk), verdict.why});
    bulk_ended(row->bulk);
    return true;
  });
  if (!done) return tl::unexpected(done.error());
  return {};
}

}  // namespace rung
