#include "src/store/causes.h"

#include <utility>

#include "src/core/base/utf8.h"
#include "src/core/task/task.h"

namespace rung {
namespace {

CauseRow row_of(std::string id, const CauseOf& failure) {
  CauseRow row;
  row.id = std::move(id);
  row.queue = failure.queue;
  row.error_type = clean_utf8(failure.error_type, 255);
  row.sample = clean_utf8(failure.error, kCauseSampleBytes);
  return row;
}

// What all failures beyond a bound have in common.
CauseOf beyond(std::string_view queue) {
  return {queue, "",
          queue.empty() ? std::string_view("other errors: there are more than 10,000 causes")
                        : std::string_view("other errors: the queue has more than 500 causes")};
}

bool has_failed(const Decision& decision) {
  if (!decision.attempt) return false;
  const Outcome outcome = decision.attempt->outcome;
  return outcome == Outcome::failed || outcome == Outcome::timed_out || outcome == Outcome::returned;
}

}  // namespace

// --- CauseBook

CauseBook::Found CauseBook::find(const CauseOf& failure, const std::string& text) const {
  std::string id = cause_id(failure.queue, failure.error_type, text);
  const std::lock_guard lock(mutex_);
  if (queues_.contains(id)) return {std::move(id)};
  const auto count = counts_.find(std::string(failure.queue));
  const bool full = queues_.size() >= kMost;
  if (!full && (count == counts_.end() || count->second < kMostOfQueue)) {
    CauseRow row = row_of(id, failure);
    return {std::move(id), std::move(row)};
  }
  const CauseOf rest = beyond(full ? std::string_view() : failure.queue);
  id = cause_id(rest.queue, rest.error_type, cause_text(rest.error));
  if (queues_.contains(id)) return {std::move(id)};
  CauseRow row = row_of(id, rest);
  return {std::move(id), std::move(row)};
}

void CauseBook::stored(const std::vector<CauseRow>& fresh) {
  const std::lock_guard lock(mutex_);
  for (const CauseRow& row : fresh) add(row.id, row.queue);
}

void CauseBook::load(const std::vector<std::pair<std::string, std::string>>& ids_and_queues) {
  const std::lock_guard lock(mutex_);
  queues_.clear();
  counts_.clear();
  for (const auto& [id, queue] : ids_and_queues) add(id, queue);
}

void CauseBook::add(const std::string& id, const std::string& queue) {
  if (queues_.emplace(id, queue).second) ++counts_[queue];
}

// --- CauseChanges

const std::string& CauseChanges::text_of(std::string_view error) {
  const auto it = texts_.find(error);
  if (it != texts_.end()) return it->second;
  return texts_.emplace(error, cause_text(error, book_->rules())).first->second;
}

void CauseChanges::begin() {
  counts_.clear();
  fresh_.clear();
}

std::string CauseChanges::find(const CauseOf& failure) {
  CauseBook::Found found = book_->find(failure, text_of(failure.error));
  if (found.fresh) fresh_.try_emplace(found.id, *std::move(found.fresh));
  return std::move(found.id);
}

std::optional<CauseOf> CauseChanges::failure_of(const NewTask& task) {
  const Task& t = task.task;
  if (task.edited || t.kind != Kind::retry || t.first_failed_at.ms == 0) return std::nullopt;
  return CauseOf{t.moved_from.empty() ? t.queue : t.moved_from, t.error_type, t.last_error};
}

std::string CauseChanges::inserted(const NewTask& task) {
  const auto failure = failure_of(task);
  std::string cause = task.edited ? task.task.cause : failure ? find(*failure) : "";
  if (cause.empty()) return cause;
  count(cause, task.task.state, 1);
  ++counts_[cause].total;
  counts_[cause].failures += task.edited ? 0 : 1;
  return cause;
}

void CauseChanges::decided(const Task& before, Decision& decision) {
  if (decision.verdict != Decision::Verdict::applied) return;
  Task& after = decision.task;
  const bool failed = has_failed(decision);
  if (failed) after.cause = find({before.queue, after.error_type, decision.attempt->error});
  if (after.cause == before.cause && after.state == before.state && !failed) return;
  count(before.cause, before.state, -1);
  count(after.cause, after.state, 1);
  if (failed) ++counts_[after.cause].failures;
  if (after.cause != before.cause && !after.cause.empty()) ++counts_[after.cause].total;
  for (const std::string& cause : {before.cause, after.cause}) {
    if (const auto it = counts_.find(cause); it != counts_.end() && it->second == CauseCounts{})
      counts_.erase(it);
  }
}

void CauseChanges::count(const std::string& cause, State state, std::int64_t tasks) {
  if (cause.empty()) return;
  switch (state) {
    case State::scheduled:
    case State::publishing:
    case State::awaiting:
      counts_[cause].scheduled += tasks;
      return;
    case State::parked:
      counts_[cause].parked += tasks;
      return;
    case State::succeeded:
      counts_[cause].succeeded += tasks;
      return;
    default:
      return;
  }
}

std::vector<CauseRow> CauseChanges::fresh() const {
  std::vector<CauseRow> out;
  for (const auto& [id, row] : fresh_) out.push_back(row);
  return out;
}

CauseState state_after(const CauseRow& before, const CauseTriage& triage) {
  if (triage.state) return *triage.state;
  if (before.state == CauseState::resolved) return before.state;
  if (triage.owner) return triage.owner->empty() ? CauseState::known : CauseState::working;
  const bool untriaged = before.state == CauseState::fresh || before.state == CauseState::regressed;
  return triage.note && untriaged ? CauseState::known : before.state;
}

std::string describe(const CauseRow& cause) {
  return "queue " + cause.queue + ": " + error_line(cause.error_type, cause.sample);
}

std::string describe_triage(const CauseRow& before, const CauseRow& after, const std::string& who) {
  std::string text = who + ":";
  const auto changed = [&](std::string_view what, const std::string& was, const std::string& is) {
    if (was != is) text.append(" ").append(what).append(" '").append(is).append("'");
  };
  changed("state", std::string(to_word(before.state)), std::string(to_word(after.state)));
  changed("owner", before.owner, after.owner);
  changed("link", before.link, after.link);
  changed("note", before.note, after.note);
  return text;
}

}  // namespace rung
