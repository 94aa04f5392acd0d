#include "src/store/live.h"

#include "src/store/mysql/rows.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {

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
