// Changes by hand (of one task, and of all), events of the system, settings that all instances share, and
// what has changed lately.
#include "src/core/base/utf8.h"
#include "src/store/mysql/store_impl.h"
#include "src/store/queries.h"

namespace rung::mysql {
namespace {

AuditRow audit_row_at(const ::sql::ResultSet& row) {
  return {row.getInt64(1),   time_at(row, 2).value_or(EpochMs{}),
          text_at(row, 3),   text_at(row, 4),
          {row.getInt64(5)}, text_at(row, 6),
          text_at(row, 7),   text_at(row, 8),
          row.getInt64(9)};
}

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
  return session.first(render("audit_log_end") + range_of(filter) + ' ' +
                           render("audit_log.one", {{"skip", Literal::number(kMostAuditRead - 1)}}),
                       [](const ::sql::ResultSet& row) {
                         return AuditPlace{time_at(row, 1).value_or(EpochMs{}), row.getInt64(2)};
                       });
}

}  // namespace

Result<std::vector<AuditRow>> MysqlStore::audit(TaskId id) {
  return session_->read_all(render("audit", {{"id", Literal::number(id.value)}}), audit_row_at);
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
    page.rows = session_->all(sql, [](const ::sql::ResultSet& row) {
      return AuditPage::Row{audit_row_at(row), text_at(row, 10)};
    });
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

void write_event(Session& session, const SystemEvent& event, int node) {
  session.later(render("event_insert", {{"node", Literal::number(node)},
                                        {"kind", Literal::text(event.kind)},
                                        {"subject", Literal::text(clean_utf8(event.subject, 255))},
                                        {"detail", Literal::text(clean_utf8(event.detail, kErrorBytes))}}));
}

Result<void> MysqlStore::record_event(int node, const SystemEvent& event) {
  return session_->run([&] { write_event(*session_, event, node); });
}

Result<std::string> MysqlStore::setting(std::string_view name, std::string_view if_absent) {
  return session_->run_for([&] {
    const Literal key = Literal::text(name);
    if (!if_absent.empty())
      session_->exec(render("setting_insert", {{"name", key}, {"value", Literal::text(if_absent)}}));
    auto row = session_->query(render("setting", {{"name", key}}));
    return row->next() ? text_at(*row, 1) : std::string();
  });
}

Result<void> MysqlStore::set_setting(std::string_view name, std::string_view value) {
  const Literal key = Literal::text(name);
  return session_->run([&] {
    session_->exec(value.empty()
                       ? render("setting_delete", {{"name", key}})
                       : render("setting_update", {{"name", key}, {"value", Literal::text(value)}}));
  });
}

Result<LiveAnswer> MysqlStore::live(const LiveQuestion& question) {
  return session_->run_for([&] {
    LiveAnswer out;
    const auto most = Literal::number(static_cast<std::int64_t>(LiveAnswer::kMost) + 1);
    std::string watched;
    if (!question.watched.empty())
      watched = render("live.watched", {{"ids", Literal::ids(question.watched)}});
    auto row = session_->query(render("live", {{"audit", Literal::number(question.after_audit)},
                                               {"event", Literal::number(question.after_event)},
                                               {"most", most}}) +
                               " " + watched);
    while (row->next()) {
      const std::string what = text_at(*row, 1);
      const std::int64_t id = row->getInt64(2), number = row->getInt64(3);
      if (what == "task") out.newest_task = id;
      if (what == "audit") out.newest_audit = id;
      if (what == "event") out.newest_event = id;
      if (what == "by_hand") out.changed_by_hand.push_back({number});
      if (what == "kind") out.event_kinds.push_back(text_at(*row, 4));
      if (what == "bulk") out.bulks[id] = number;
      if (what == "watched") out.versions[{id}] = static_cast<std::uint32_t>(number);
    }
    return out;
  });
}

}  // namespace rung::mysql
