// Events of the system, and the settings that all instances share.
#include "src/store/mysql/render.h"
#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {

void write_event(Session& session, const SystemEvent& event, int node) {
  session.exec(render("event_insert", {{"node", Literal::number(node)},
                                       {"kind", Literal::text(event.kind.substr(0, 64))},
                                       {"subject", Literal::text(event.subject.substr(0, 255))},
                                       {"detail", Literal::text(event.detail)}}));
}

Result<void> MysqlStore::record_event(int node, const SystemEvent& event) {
  return session_->run([&] { write_event(*session_, event, node); });
}

Result<std::vector<SystemEvent>> MysqlStore::events(int limit) {
  return session_->run_for([&] {
    std::vector<SystemEvent> events;
    auto row = session_->query(render("events", {{"limit", Literal::number(limit)}}));
    while (row->next()) {
      events.push_back({row->getInt64(1), time_at(*row, 2).value_or(EpochMs{}), text_at(*row, 3),
                        text_at(*row, 4), text_at(*row, 5), text_at(*row, 6)});
    }
    return events;
  });
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

}  // namespace rung::mysql
