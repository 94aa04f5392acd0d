// Retention, row by row: finished tasks, their remains in a partition that stays, old records.
#include <algorithm>
#include <set>

#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

// REQUIRES: inside run() or transaction(), as for what follows.
std::vector<TaskId> ids_of(Session& session, const std::string& sql) {
  std::vector<TaskId> out;
  auto row = session.query(sql);
  while (row->next()) out.push_back({row->getInt64(1)});
  return out;
}

std::int64_t erase(Session& session, std::string_view statement, std::span<const TaskId> ids) {
  return ids.empty() ? 0 : session.exec(render(statement, {{"ids", Literal::ids(ids)}}));
}

// Removes from `ids` the tasks of a running bulk, which would find them gone.
void without_bulks(Session& session, std::vector<TaskId>& ids) {
  const auto bulks = ids_of(session, render("bulks_under_way"));
  if (bulks.empty() || ids.empty()) return;
  const auto named =
      ids_of(session, render("bulks_name", {{"bulks", Literal::ids(bulks)}, {"ids", Literal::ids(ids)}}));
  const std::set<TaskId> stay(named.begin(), named.end());
  std::erase_if(ids, [&](TaskId id) { return stay.contains(id); });
}

// Tasks that are about to be deleted.
void forget_in_causes(Session& session, const CauseBook& book, std::span<const TaskId> ids) {
  if (ids.empty()) return;
  CauseTexts none(book);
  CauseChanges changes(none);
  auto row = session.query(render("causes_of_tasks", {{"ids", Literal::ids(ids)}}));
  while (row->next())
    changes.removed(text_at(*row, 1), state_from(text_at(*row, 2)).value_or(State::unknown),
                    row->getInt64(3));
  write_causes(session, changes, 0, EpochMs{});
}

}  // namespace

Result<PurgeResult> MysqlStore::purge_finished(EpochMs before, const PurgeCursor& from, int limit) {
  const Literal old = Literal::time(before);
  PurgeResult page{0, from, false};
  std::vector<TaskId> over;
  auto seen = session_->run([&] {
    auto row = session_->query(render("over_page", {{"at", Literal::time(from.at)},
                                                    {"id", Literal::number(from.id.value)},
                                                    {"before", old},
                                                    {"limit", Literal::number(limit)}}));
    int rows = 0;
    while (row->next()) {
      ++rows;
      page.last = {time_at(*row, 2).value_or(EpochMs{}), {row->getInt64(1)}};
      const auto state = state_from(text_at(*row, 3));
      if (state && *state != State::parked) over.push_back(page.last.id);
    }
    page.more = rows == limit;
  });
  if (!seen) return tl::unexpected(seen.error());
  if (over.empty()) return page;
  std::ranges::sort(over);
  return session_->transaction_for(
      [&] {
        auto ids = ids_of(*session_, render("over_lock", {{"ids", Literal::ids(over)}, {"before", old}}));
        without_bulks(*session_, ids);
        PurgeResult out = page;
        forget_in_causes(*session_, *causes_, ids);
        erase(*session_, "over_delete_headers", ids);
        out.tasks = erase(*session_, "over_delete", ids);
        return out;
      },
      "purge");
}

Result<Swept> MysqlStore::sweep(TaskId from, TaskId to, int limit) {
  return session_->transaction_for(
      [&] {
        Swept out;
        const auto page = [&](std::string_view statement) {
          return ids_of(*session_, render(statement, {{"from", Literal::number(from.value)},
                                                      {"to", Literal::number(to.value)},
                                                      {"limit", Literal::number(limit)}}));
        };
        auto bodies = page("sweep_bodies");
        auto attempts = page("sweep_attempts");
        // The end of the range that both pages cover.
        TaskId end = to;
        for (const auto* rows : {&bodies, &attempts}) {
          if (static_cast<int>(rows->size()) == limit) end = std::min(end, TaskId{rows->back().value + 1});
        }
        if (end < to) out.next = end;
        const auto here = ids_of(*session_, render("sweep_tasks", {{"from", Literal::number(from.value)},
                                                                   {"to", Literal::number(end.value)}}));
        const std::set<TaskId> tasks(here.begin(), here.end());
        std::set<TaskId> gone;
        for (auto* rows : {&bodies, &attempts}) {
          std::erase_if(*rows, [&](TaskId id) { return id >= end || tasks.contains(id); });
          gone.insert(rows->begin(), rows->end());
        }
        erase(*session_, "sweep_delete_attempts", attempts);
        erase(*session_, "sweep_delete_bodies", bodies);
        out.tasks = static_cast<std::int64_t>(gone.size());
        return out;
      },
      "sweep");
}

Result<PurgedRecords> MysqlStore::purge_records(EpochMs before, int limit) {
  return session_->transaction_for([&] {
    PurgedRecords out;
    const Literal old = Literal::time(before), most = Literal::number(limit);
    out.audit = erase(*session_, "old_audit_delete",
                      ids_of(*session_, render("old_audit", {{"before", old}, {"limit", most}})));
    out.more = out.audit == limit;
    out.events = erase(*session_, "old_events_delete",
                       ids_of(*session_, render("old_events", {{"before", old}, {"limit", most}})));
    out.more = out.more || out.events == limit;
    const auto bulks = ids_of(*session_, render("old_bulk", {{"before", old}}));
    if (bulks.empty()) return out;
    out.more = true;  // this one may have further items, or not be the last
    const Literal bulk = Literal::ids(bulks);
    const auto items = ids_of(*session_, render("old_bulk_items", {{"bulk", bulk}, {"limit", most}}));
    if (!items.empty())
      session_->exec(render("old_bulk_items_delete", {{"bulk", bulk}, {"ids", Literal::ids(items)}}));
    if (static_cast<int>(items.size()) < limit)
      out.bulks = session_->exec(render("old_bulk_delete", {{"bulk", bulk}}));
    return out;
  });
}

}  // namespace rung::mysql
