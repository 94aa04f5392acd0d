// Changes by hand: of one task, and of all.
#include "src/store/audit.h"

#include "src/core/base/utf8.h"
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kAuditNameBytes = 255;

AuditRow audit_row_at(const ::sql::ResultSet& row) {
  return {row.getInt64(1),   time_at(row, 2).value_or(EpochMs{}),
          text_at(row, 3),   text_at(row, 4),
          {row.getInt64(5)}, text_at(row, 6),
          text_at(row, 7),   text_at(row, 8),
          row.getInt64(9)};
}

Literal name_literal(const std::string& name) { return Literal::text(clean_utf8(name, kAuditNameBytes)); }

// What the index serves.
std::string range_of(const AuditFilter& filter) {
  std::string sql = ' ' + render("audit_log.bulk", {{"bulk", Literal::number(filter.bulk)}});
  if (filter.since) sql += ' ' + render("audit_log.since", {{"since", Literal::time(filter.since)}});
  if (filter.until) sql += ' ' + render("audit_log.until", {{"until", Literal::time(filter.until)}});
  if (filter.after)
    sql += ' ' + render("audit_log.after",
                        {{"at", Literal::time(filter.after->at)}, {"id", Literal::number(filter.after->id)}});
  return sql;
}

std::string selection_of(const AuditFilter& filter) {
  std::string sql;
  if (!filter.queue.empty())
    sql += ' ' + render("audit_log.queue", {{"value", Literal::rendered(render("audit_log.queue_value"))},
                                            {"queue", name_literal(filter.queue)}});
  if (!filter.what.empty()) sql += ' ' + render("audit_log.what", {{"what", name_literal(filter.what)}});
  if (!filter.who.empty()) sql += ' ' + render("audit_log.who", {{"who", name_literal(filter.who)}});
  return sql;
}

// The last row that may be read; none: there are no more than that.
std::optional<AuditPlace> end_of_reading(Session& session, const AuditFilter& filter) {
  auto row = session.query(render("audit_log_end") + range_of(filter) + ' ' +
                           render("audit_log.one", {{"skip", Literal::number(kMostAuditRead - 1)}}));
  if (!row->next()) return std::nullopt;
  return AuditPlace{time_at(*row, 1).value_or(EpochMs{}), row->getInt64(2)};
}

}  // namespace

Result<std::vector<AuditRow>> MysqlStore::audit(TaskId id) {
  return session_->run_for([&] {
    std::vector<AuditRow> out;
    auto row = session_->query(render("audit", {{"id", Literal::number(id.value)}}));
    while (row->next()) out.push_back(audit_row_at(*row));
    return out;
  });
}

Result<AuditPage> MysqlStore::audit_log(const AuditFilter& filter) {
  if (auto good = check_queue(filter.queue); !good) return tl::unexpected(good.error());
  return session_->run_for([&] {
    AuditPage page;
    const auto end = filter.selects() ? end_of_reading(*session_, filter) : std::nullopt;
    std::string sql = render("audit_log", {{"value", Literal::rendered(render("audit_log.queue_value"))}}) +
                      range_of(filter);
    if (end)
      sql += ' ' +
             render("audit_log.down_to", {{"at", Literal::time(end->at)}, {"id", Literal::number(end->id)}});
    sql +=
        selection_of(filter) + ' ' + render("audit_log.end", {{"limit", Literal::number(filter.limit + 1)}});
    auto row = session_->query(sql);
    while (row->next()) page.rows.push_back({audit_row_at(*row), text_at(*row, 10)});
    if (page.rows.size() <= static_cast<std::size_t>(filter.limit)) {
      page.next = end;
    } else {
      page.rows.pop_back();
      const AuditRow& last = page.rows.back().change;
      page.next = {last.at, last.id};
    }
    return page;
  });
}

}  // namespace rung::mysql
