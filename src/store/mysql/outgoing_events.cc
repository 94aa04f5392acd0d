// Events for other systems, until they are published.
#include "src/core/base/utf8.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kQueueMost = 255;

}  // namespace

void write_outgoing(Session& session, std::span<const OutgoingEvent> events) {
  Rows rows;
  for (const OutgoingEvent& event : events) {
    if (!session.options().events.holds(event.kind)) continue;
    rows.row() << Literal::rendered("UTC_TIMESTAMP(3)") << Literal::text(to_word(event.kind))
               << Literal::text(event.subject) << Literal::text(clean_utf8(event.queue, kQueueMost));
  }
  if (rows.count() > 0) session.later(render("outgoing_insert", {{"rows", rows.done()}}));
}

Result<std::vector<OutgoingEvent>> MysqlStore::outgoing_events(int limit) {
  return session_->run_for([&] {
    std::vector<OutgoingEvent> events;
    auto row = session_->query(
        render("outgoing", {{"kinds", Literal::texts(kOutgoingWords)}, {"limit", Literal::number(limit)}}));
    while (row->next()) {
      events.push_back({row->getInt64(1), time_at(*row, 2).value_or(EpochMs{}),
                        outgoing_kind_from(text_at(*row, 3)).value_or(OutgoingKind::task_parked),
                        text_at(*row, 4), text_at(*row, 5)});
    }
    return events;
  });
}

Result<void> MysqlStore::forget_outgoing_events(std::span<const std::int64_t> ids) {
  if (ids.empty()) return {};
  return session_->run([&] { session_->exec(render("outgoing_delete", {{"ids", Literal::numbers(ids)}})); });
}

Result<int> MysqlStore::drop_outgoing_events(EpochMs before, int limit) {
  return session_->run_for([&] {
    return static_cast<int>(session_->exec(
        render("outgoing_drop", {{"before", Literal::time(before)}, {"limit", Literal::number(limit)}})));
  });
}

}  // namespace rung::mysql
