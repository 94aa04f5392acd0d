// Counts of tasks, of promises of lateness and of activity; batches that must not count twice.
#include <algorithm>

#include "src/core/base/result.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {
namespace {

Sql minutes_of(Ms length) {
  return Sql::of(std::chrono::duration_cast<std::chrono::minutes>(length).count());
}

void add_promised(Session& session, const CountBatch& batch) {
  Rows rows;
  for (const auto& [queue, promised, activity] : batch.changes) {
    if (promised == PromiseCounts{}) continue;
    for (const Ms length : {kPromiseMinutes, kPromiseHour}) {
      rows.row() << queue_key(name_sql(queue)) << minutes_of(length) << bucket_of(batch.at, length)
                 << promised.in_time << promised.late << promised.gated;
    }
  }
  if (!rows.empty()) session.later(render("promises_add", {{"rows", rows.done()}}));
}

void add_activity(Session& session, const CountBatch& batch) {
  const EpochMs minute = bucket_of(batch.at, kActivityMinute);
  Rows rows;
  const auto add = [&](const std::string& queue, const ActivityCounts& more) {
    if (more == ActivityCounts{}) return;
    rows.row() << queue_key(name_sql(queue)) << minute << more.failed << more.retried << more.succeeded;
  };
  for (const auto& [queue, promised, activity] : batch.changes) add(queue, activity);
  add(kAllQueues, sum_of(batch));
  if (!rows.empty()) session.later(render("activity_add", {{"rows", rows.done()}}));
}

// Adds to `piece` what `which` selects. Returns whether it counted as many as it may; then piece.next is
// behind them.
bool count_some(Session& session, EndedPiece& piece, State state, const Sql& which, int most) {
  const Sql ended = render("count_ended", {{"state", state}, {"which", which}, {"most", most}});
  std::int64_t counted = 0;
  EndedPlace last{state};
  for (const auto& [queue, tasks, id] : session.rows<std::string, std::int64_t, TaskId>(ended)) {
    last = {state, queue, id};
    piece.queues.push_back({queue, state, tasks, {}, 0});
    counted += tasks;
  }
  if (counted < most) return false;
  piece.next = std::move(last);
  return true;
}

// The place of the first task of the next state; none: it was the last one.
std::optional<EndedPlace> ended_after(State state) {
  const auto* const next = std::ranges::find(kEndedStates, state) + 1;
  return next < kEndedStates.end() ? std::optional(EndedPlace{*next}) : std::nullopt;
}

}  // namespace

bool is_repeated(Session& session, std::string_view kind, const std::string& maker, const std::string& id) {
  if (session.value<std::string>(render("batch_lock", {{"kind", kind}, {"maker", maker}})) == id) return true;
  session.later(render("batch_write", {{"kind", kind}, {"maker", maker}, {"id", id}}));
  return false;
}

std::vector<QueueStat> MysqlStore::open_by_queue() {
  return session_->all(render("open_by_queue"),
                       row_of(&QueueStat::queue, &QueueStat::state, &QueueStat::tasks,
                              &QueueStat::oldest_due_at, &QueueStat::overdue));
}

EndedPiece MysqlStore::count_ended(const EndedPlace& from, int most) {
  EndedPiece piece;
  // Two ranges of the index. One condition for both would read the queue's entries from the first on.
  const Sql same = render("count_ended.same_queue", {{"queue", from.queue}, {"id", from.id}});
  const Sql others = render("count_ended.next_queues", {{"queue", from.queue}});
  if (count_some(*session_, piece, from.state, same, most)) return piece;
  if (!count_some(*session_, piece, from.state, others, most)) piece.next = ended_after(from.state);
  return piece;
}

void MysqlStore::add_counts(const CountBatch& batch) {
  RUNG_REQUIRE(batch.changes.size() <= CountBatch::kMost);
  if (batch.changes.empty()) return;
  session_->transaction([&] {
    if (is_repeated(*session_, "counts", batch.maker, batch.id)) return;
    add_promised(*session_, batch);
    add_activity(*session_, batch);
  });
}

std::vector<PromiseRow> MysqlStore::promises() {
  std::vector<PromiseRow> out;
  for (const auto& [queue, minutes, in_time, late, gated] :
       session_->rows<std::string, int, std::int64_t, std::int64_t, std::int64_t>(render("promises"))) {
    if (out.empty() || out.back().queue != queue) out.push_back({queue, {}, {}});
    (Ms{std::chrono::minutes{minutes}} == kPromiseHour ? out.back().last_day : out.back().last_hour) = {
        in_time, late, gated};
  }
  return out;
}

std::vector<ActivityPoint> MysqlStore::activity(const ActivityRange& range) {
  return session_->all(render("activity", {{"step", minutes_of(range.step)},
                                           {"queue", name_sql(range.queue)},
                                           {"from", range.from},
                                           {"until", range.until}}),
                       [&](const ::sql::ResultSet& row) {
                         return ActivityPoint{EpochMs{row.getInt64(1) * range.step.count()},
                                              {row.getInt64(2), row.getInt64(3), row.getInt64(4)}};
                       });
}

int MysqlStore::forget(EpochMs now, int limit) {
  int gone = 0;
  const auto forget = [&](std::string_view name, Ms kept, Ms length = Ms{0}) {
    gone += static_cast<int>(session_->exec(
        render(name, {{"before", now - kept}, {"limit", limit}, {"minutes", minutes_of(length)}})));
  };
  forget("promises_forget", kPromiseHour, kPromiseMinutes);
  forget("promises_forget", kPromiseDay, kPromiseHour);
  forget("activity_forget", kActivityKept);
  forget("gates_forget", kGatesKept);
  forget("causes_forget", kCauseForgotten);
  session_->exec(render("batches_forget", {{"before", now - kPromiseDay}}));
  return gone;
}

}  // namespace rung::mysql
