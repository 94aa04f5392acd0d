// Causes of failures: sql/mysql/schema.sql says how the tables work together.
#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "src/core/base/utf8.h"
#include "src/store/mysql/session.h"

namespace rung::mysql {
namespace {

std::string brief(const std::string& detail) { return clean_utf8(detail, 500); }  // of an event

constexpr auto cause_at =
    row_of(&CauseRow::id, &CauseRow::queue, &CauseRow::error_type, &CauseRow::sample, &CauseRow::first_seen,
           &CauseRow::last_seen, &CauseRow::scheduled, &CauseRow::parked, &CauseRow::succeeded,
           &CauseRow::total, &CauseRow::last_hour, &CauseRow::state, &CauseRow::owner, &CauseRow::note,
           &CauseRow::link, &CauseRow::worse_at);

std::vector<CauseRow> read_rows(Session& session, const CauseFilter& filter) {
  Sql sql = render("causes");
  if (!filter.id.empty()) sql += equals("cause_id", filter.id);
  if (!filter.queue.empty()) sql += same_text("queue", filter.queue);
  if (!filter.states.empty()) sql += render("list.states", {{"states", filter.states}});
  if (filter.with_tasks) sql += render("causes.with_tasks");
  if (filter.since)
    sql += render("list.from", {{"column", Sql::identifier("last_seen")}, {"value", filter.since}});
  sql += render("causes.end", {{"limit", filter.limit}, {"offset", filter.offset}});
  return session.all(sql, cause_at);
}

// One statement for all of them.
void read_trends(Session& session, std::vector<CauseRow>& rows) {
  if (rows.empty()) return;
  std::map<std::string_view, CauseRow*> by_id;
  std::vector<std::string> ids;
  for (CauseRow& row : rows) {
    row.trend.assign(kCauseBuckets, 0);
    by_id[row.id] = &row;
    ids.push_back(row.id);
  }
  const Sql trends = render("cause_trends", {{"causes", ids}});
  for (const auto& [id, age, failures] : session.rows<std::string, std::size_t, std::int64_t>(trends)) {
    if (age < kCauseBuckets) by_id.at(id)->trend[kCauseBuckets - 1 - age] += failures;
  }
  // last_hour has the changes of the last second, too, which are not in a bucket yet.
  for (CauseRow& row : rows) {
    const std::int64_t sum = std::accumulate(row.trend.begin(), row.trend.end(), std::int64_t{0});
    row.trend.back() += std::max<std::int64_t>(row.last_hour - sum, 0);
  }
}

std::optional<std::string> at_most(const std::optional<std::string>& text, std::size_t most) {
  return text ? std::optional(clean_utf8(*text, most)) : std::nullopt;
}

// Reopens these causes. Returns those of them that had been ignored.
std::vector<CauseRow> reopen(Session& session, const std::vector<std::string>& again) {
  if (again.empty()) return {};
  session.exec(render("causes_reopen", {{"causes", again}}));
  std::vector<CauseRow> out;
  for (const std::string& cause : again) {
    const auto rows = read_rows(session, {.id = cause});
    if (rows.empty()) continue;
    write_event(session, {rows[0].worse_at ? "cause_worse" : "cause_regressed", cause,
                          brief(std::to_string(rows[0].last_hour) + " failures in the last hour; " +
                                describe(rows[0]))});
    if (rows[0].worse_at) out.push_back(rows[0]);
  }
  return out;
}

}  // namespace

void MysqlStore::write_causes(const CauseChanges& changes, int node, EpochMs now) {
  // One by one: the number of matched rows tells whether this process was first.
  for (const CauseRow& row : changes.fresh()) {
    Rows rows;
    rows.row() << row.id << name_sql(row.queue) << row.error_type << row.sample << now << now;
    if (session_->exec(render("cause_new", {{"rows", rows.done()}})) != 1) continue;
    write_event(*session_, {"cause_appeared", row.id, brief(describe(row))}, node);
  }
  if (changes.empty()) return;
  Rows rows;
  for (const auto& [cause, counts] : changes.counts()) {
    rows.row() << cause << now << counts.scheduled << counts.parked << counts.succeeded << counts.total
               << counts.failures;
  }
  session_->later(render("cause_changes_write", {{"rows", rows.done()}}));
}

std::vector<CauseRow> MysqlStore::causes(const CauseFilter& filter) {
  check_queue(filter.queue);
  auto rows = read_rows(*session_, filter);
  read_trends(*session_, rows);
  return rows;
}

std::optional<CauseRow> MysqlStore::triage(const std::string& cause, const CauseTriage& triage,
                                           const std::string& who) {
  return session_->transaction([&]() -> std::optional<CauseRow> {
    const auto before = read_rows(*session_, {.id = cause});
    if (before.empty()) return std::nullopt;
    session_->exec(
        render("cause_triage",
               {{"cause", cause},
                {"state", state_after(before[0], triage)},
                {"owner", at_most(triage.owner, kCauseOwnerBytes)},
                {"note", at_most(triage.note, kCauseNoteBytes)},
                {"link", at_most(triage.link, kCauseLinkBytes)},
                {"rate", triage.state == CauseState::ignored ? Sql::of(before[0].last_hour) : Sql::null()}}));
    auto after = read_rows(*session_, {.id = cause});
    read_trends(*session_, after);
    write_event(*session_, {"cause_triaged", cause, brief(describe_triage(before[0], after.at(0), who))});
    return after.at(0);
  });
}

CauseTotals MysqlStore::cause_totals() {
  CauseTotals out;
  for (const auto& [word, causes, worse] :
       session_->rows<std::string, std::int64_t, std::int64_t>(render("cause_totals"))) {
    if (const auto state = from_word<CauseState>(word)) out.by_state[*state] = causes;
    out.worse += worse;
  }
  return out;
}

CausesFolded MysqlStore::fold_causes(int limit) {
  return session_->transaction([&] {
    CausesFolded out;
    const auto ids = session_->rows<std::int64_t>(render("cause_changes", {{"limit", limit}}));
    if (ids.empty()) return out;
    const Place changes{"ids", ids};
    session_->later(render("cause_rates_forget"));
    session_->later(render("causes_fold", {changes}));
    session_->later(render("cause_rates_fold", {changes}));
    out.more = static_cast<int>(ids.size()) >= limit;
    const Sql again = render("causes_again", {changes, {"times", kWorse}});
    out.worse = reopen(*session_, session_->rows<std::string>(again));
    session_->later(render("causes_resolve", {changes}));
    session_->later(delete_by("rung_cause_changes", "id", changes.value));
    return out;
  });
}

void MysqlStore::read_causes() {
  book_->load(
      session_->all(render("cause_ids", {{"kept_s", kCauseKept.count() / 1000}}),
                    [](const ::sql::ResultSet& row) { return std::pair(text_at(row, 1), text_at(row, 2)); }));
}

}  // namespace rung::mysql
