// Causes of failures: sql/mysql/schema.sql says how the tables work together.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "src/core/base/utf8.h"
#include "src/store/mysql/store_impl.h"

namespace rung::mysql {
namespace {

constexpr std::size_t kEventSampleBytes = 500;

void write_cause_event(Session& session, std::string_view kind, const std::string& cause,
                       const std::string& detail, int node = 0) {
  write_event(session, {std::string(kind), cause, clean_utf8(detail, kEventSampleBytes)}, node);
}

CauseRow cause_at(const ::sql::ResultSet& row) {
  CauseRow out;
  std::uint32_t c = 0;
  out.id = text_at(row, ++c);
  out.queue = text_at(row, ++c);
  out.error_type = text_at(row, ++c);
  out.sample = text_at(row, ++c);
  out.first_seen = time_at(row, ++c).value_or(EpochMs{});
  out.last_seen = time_at(row, ++c).value_or(EpochMs{});
  out.scheduled = row.getInt64(++c);
  out.parked = row.getInt64(++c);
  out.succeeded = row.getInt64(++c);
  out.total = row.getInt64(++c);
  out.last_hour = row.getInt64(++c);
  out.state = cause_state_from(text_at(row, ++c)).value_or(CauseState::known);
  out.owner = text_at(row, ++c);
  out.note = text_at(row, ++c);
  out.link = text_at(row, ++c);
  out.worse_at = time_at(row, ++c);
  return out;
}

std::vector<CauseRow> read_rows(Session& session, const CauseFilter& filter) {
  std::string sql = render("causes");
  const auto also = [&](std::string_view name, Place place) {
    sql += ' ' + render(name, {std::move(place)});
  };
  if (!filter.id.empty()) also("causes.id", {"cause", Literal::text(filter.id)});
  if (!filter.queue.empty()) also("causes.queue", {"queue", Literal::text(filter.queue)});
  if (!filter.states.empty())
    also("causes.states", {"states", Literal::texts(filter.states, [](CauseState s) { return to_word(s); })});
  if (filter.with_tasks) sql += ' ' + render("causes.with_tasks");
  if (filter.since) also("causes.since", {"since", Literal::time(*filter.since)});
  sql += ' ' + render("causes.end",
                      {{"limit", Literal::number(filter.limit)}, {"offset", Literal::number(filter.offset)}});
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
  auto bucket = session.query(render("cause_trends", {{"causes", Literal::texts(ids)}}));
  while (bucket->next()) {
    const auto row = by_id.find(text_at(*bucket, 1));
    const std::int64_t age = bucket->getInt64(2);
    if (row == by_id.end() || age < 0 || age >= std::int64_t{kCauseBuckets}) continue;
    row->second->trend[kCauseBuckets - 1 - static_cast<std::size_t>(age)] += bucket->getInt64(3);
  }
  // last_hour has the changes of the last second, too, which are not in a bucket yet.
  for (CauseRow& row : rows) {
    const std::int64_t sum = std::accumulate(row.trend.begin(), row.trend.end(), std::int64_t{0});
    row.trend.back() += std::max<std::int64_t>(row.last_hour - sum, 0);
  }
}

Literal optional_text(const std::optional<std::string>& text, std::size_t most) {
  return text ? Literal::text(clean_utf8(*text, most)) : Literal::null();
}

// Changes of one cause, added up.
struct Sum {
  CauseCounts counts;
  EpochMs last_seen;
  std::optional<CauseState> state = {};      // before them
  std::map<EpochMs, std::int64_t> failures;  // by bucket
};
using Sums = std::map<std::string, Sum>;

// Locks the changes that it adds up.
Sums add_up(Session& session, int limit, std::vector<std::int64_t>& ids) {
  Sums sums;
  auto row = session.query(render("cause_changes", {{"limit", Literal::number(limit)}}));
  while (row->next()) {
    ids.push_back(row->getInt64(1));
    Sum& sum = sums[text_at(*row, 2)];
    const EpochMs at = time_at(*row, 3).value_or(EpochMs{});
    const CauseCounts change{row->getInt64(4), row->getInt64(5), row->getInt64(6), row->getInt64(7),
                             row->getInt64(8)};
    sum.counts.add(change);
    sum.state = cause_state_from(text_at(*row, 9));
    if (change.failures == 0) continue;
    sum.last_seen = std::max(sum.last_seen, at);
    sum.failures[EpochMs{at.ms - at.ms % kCauseBucket.count()}] += change.failures;
  }
  return sums;
}

void write_sums(Session& session, const Sums& sums) {
  Rows causes, rates;
  for (const auto& [cause, sum] : sums) {
    const Literal id = Literal::text(cause), none = Literal::text(""), seen = Literal::time(sum.last_seen);
    causes.row() << id << none << none << none << seen << seen << Literal::number(sum.counts.scheduled)
                 << Literal::number(sum.counts.parked) << Literal::number(sum.counts.succeeded)
                 << Literal::number(sum.counts.total);
    for (const auto& [since, failures] : sum.failures)
      rates.row() << id << Literal::time(since) << Literal::number(failures);
  }
  session.later(render("causes_fold", {{"rows", causes.done()}}));
  if (rates.count() > 0) session.later(render("cause_rates_fold", {{"rows", rates.done()}}));
}

// Of these causes, reopens the ignored ones that have got worse, and the resolved ones that have failed.
// Returns the former.
std::vector<CauseRow> reopen(Session& session, const Sums& sums) {
  std::vector<std::string> ignored, again;
  for (const auto& [cause, sum] : sums) {
    if (sum.counts.failures == 0) continue;
    if (sum.state == CauseState::ignored) ignored.push_back(cause);
    if (sum.state == CauseState::resolved) again.push_back(cause);
  }
  if (!ignored.empty()) {
    auto row = session.query(
        render("causes_worse", {{"causes", Literal::texts(ignored)}, {"times", Literal::number(kWorse)}}));
    while (row->next()) again.push_back(text_at(*row, 1));
  }
  if (again.empty()) return {};
  session.exec(render("causes_reopen", {{"causes", Literal::texts(again)}}));
  std::vector<CauseRow> out;
  for (const std::string& cause : again) {
    const auto rows = read_rows(session, {.id = cause});
    if (rows.empty()) continue;
    write_cause_event(session, rows[0].worse_at ? "cause_worse" : "cause_regressed", cause,
                      std::to_string(rows[0].last_hour) + " failures in the last hour; " + describe(rows[0]));
    if (rows[0].worse_at) out.push_back(rows[0]);
  }
  return out;
}

}  // namespace

void write_causes(Session& session, const CauseChanges& changes, int node, EpochMs now) {
  // One by one: the number of matched rows tells whether this process was first.
  for (const CauseRow& row : changes.fresh()) {
    const Literal at = Literal::time(now);
    Rows rows;
    rows.row() << Literal::text(row.id) << Literal::text(clean_utf8(row.queue, 255))
               << Literal::text(row.error_type) << Literal::text(row.sample) << at << at;
    if (session.exec(render("cause_new", {{"rows", rows.done()}})) != 1) continue;
    write_cause_event(session, "cause_appeared", row.id, describe(row), node);
  }
  if (changes.empty()) return;
  Rows rows;
  for (const auto& [cause, counts] : changes.counts()) {
    rows.row() << Literal::text(cause) << Literal::time(now) << Literal::number(counts.scheduled)
               << Literal::number(counts.parked) << Literal::number(counts.succeeded)
               << Literal::number(counts.total) << Literal::number(counts.failures);
  }
  session.later(render("cause_changes_write", {{"rows", rows.done()}}));
}

Result<std::vector<CauseRow>> MysqlStore::causes(const CauseFilter& filter) {
  if (auto good = check_queue(filter.queue); !good) return tl::unexpected(good.error());
  return session_->run_for([&] {
    auto rows = read_rows(*session_, filter);
    read_trends(*session_, rows);
    return rows;
  });
}

Result<std::optional<CauseRow>> MysqlStore::triage(const std::string& cause, const CauseTriage& triage,
                                                   const std::string& who) {
  return session_->transaction_for([&]() -> std::optional<CauseRow> {
    const auto before = read_rows(*session_, {.id = cause});
    if (before.empty()) return std::nullopt;
    session_->exec(render("cause_triage",
                          {{"cause", Literal::text(cause)},
                           {"state", Literal::text(to_word(state_after(before[0], triage)))},
                           {"owner", optional_text(triage.owner, kCauseOwnerBytes)},
                           {"note", optional_text(triage.note, kCauseNoteBytes)},
                           {"link", optional_text(triage.link, kCauseLinkBytes)},
                           {"rate", triage.state == CauseState::ignored ? Literal::number(before[0].last_hour)
                                                                        : Literal::null()}}));
    auto after = read_rows(*session_, {.id = cause});
    read_trends(*session_, after);
    write_cause_event(*session_, "cause_triaged", cause, describe_triage(before[0], after.at(0), who));
    return after.at(0);
  });
}

Result<CauseTotals> MysqlStore::cause_totals() {
  return session_->run_for([&] {
    CauseTotals out;
    auto row = session_->query(render("cause_totals"));
    while (row->next()) {
      if (const auto state = cause_state_from(text_at(*row, 1))) out.by_state[*state] = row->getInt64(2);
      out.worse += row->getInt64(3);
    }
    return out;
  });
}

Result<CausesFolded> MysqlStore::fold_causes(int limit) {
  return session_->transaction_for([&] {
    CausesFolded out;
    std::vector<std::int64_t> ids;
    const Sums sums = add_up(*session_, limit, ids);
    if (ids.empty()) return out;
    session_->later(render("cause_rates_forget"));
    write_sums(*session_, sums);
    session_->later(render("cause_changes_delete", {{"ids", Literal::numbers(ids)}}));
    out.more = static_cast<int>(ids.size()) >= limit;
    out.worse = reopen(*session_, sums);
    session_->later(
        render("causes_resolve", {{"causes", Literal::texts(sums, [](const auto& s) { return s.first; })}}));
    return out;
  });
}

Result<void> MysqlStore::read_causes() {
  return session_->run([&] {
    causes_->load(session_->all(
        render("cause_ids", {{"kept_s", Literal::number(kCauseKept.count() / 1000)}}),
        [](const ::sql::ResultSet& row) { return std::pair(text_at(row, 1), text_at(row, 2)); }));
  });
}

Result<int> MysqlStore::forget_causes(EpochMs before, int limit) {
  return session_->run_for([&] {
    return static_cast<int>(session_->exec(
        render("causes_forget", {{"before", Literal::time(before)}, {"limit", Literal::number(limit)}})));
  });
}

}  // namespace rung::mysql
