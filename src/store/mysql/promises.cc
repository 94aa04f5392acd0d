// Counts of promises of lateness: 0026_late_by.sql.
#include "src/core/base/require.h"
#include "src/core/base/utf8.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kQueueBytes = 255;

Literal minutes_of(Ms length) {
  return Literal::number(std::chrono::duration_cast<std::chrono::minutes>(length).count());
}

// Whether the maker's latest batch was this one. If not, it is from now on.
bool is_added(Session& session, const PromiseBatch& batch) {
  const Literal maker = Literal::text(batch.maker);
  auto row = session.query(render("promise_batch_lock", {{"maker", maker}}));
  if (row->next() && text_at(*row, 1) == batch.id) return true;
  session.exec(render("promise_batch_write", {{"maker", maker}, {"id", Literal::text(batch.id)}}));
  return false;
}

PromiseCounts counts_at(const ::sql::ResultSet& row, std::uint32_t column) {
  return {row.getInt64(column), row.getInt64(column + 1), row.getInt64(column + 2)};
}

}  // namespace

Result<void> MysqlStore::add_promises(const PromiseBatch& batch) {
  RUNG_REQUIRE(batch.changes.size() <= PromiseBatch::kMost);
  if (batch.changes.empty()) return {};
  return session_->transaction([&] {
    if (is_added(*session_, batch)) return;
    Rows rows;
    for (const auto& [queue, more] : batch.changes) {
      const Literal name = Literal::text(clean_utf8(queue, kQueueBytes));
      for (const Ms length : {kPromiseMinutes, kPromiseHour}) {
        rows.row() << name << length_of(name) << minutes_of(length)
                   << Literal::time(promise_bucket(batch.at, length)) << Literal::number(more.in_time)
                   << Literal::number(more.late) << Literal::number(more.gated);
      }
    }
    session_->exec(render("promises_add", {{"rows", rows.done()}}));
  });
}

Result<std::vector<PromiseRow>> MysqlStore::promises() {
  return session_->run_for([&] {
    std::vector<PromiseRow> out;
    auto row = session_->query(render(either("promises", "promises_by_views")));
    while (row->next()) out.push_back({text_at(*row, 1), counts_at(*row, 2), counts_at(*row, 5)});
    return out;
  });
}

Result<int> MysqlStore::forget_promises(EpochMs now, int limit) {
  return session_->run_for([&] {
    int gone = 0;
    for (const auto& [length, keeps] :
         {std::pair(kPromiseMinutes, kPromiseHour), std::pair(kPromiseHour, kPromiseDay)}) {
      gone +=
          static_cast<int>(session_->exec(render("promises_forget", {{"minutes", minutes_of(length)},
                                                                     {"before", Literal::time(now - keeps)},
                                                                     {"limit", Literal::number(limit)}})));
    }
    session_->exec(render("promise_batches_forget", {{"before", Literal::time(now - kPromiseDay)}}));
    return gone;
  });
}

}  // namespace rung::mysql
