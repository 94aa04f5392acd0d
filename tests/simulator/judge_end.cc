// The judge's final checks, long after the last fault.
#include <algorithm>

#include "tests/simulator/judge.h"
#include "tests/simulator/messages.h"

namespace rung::sim {
namespace {

// What is due is moved on within this, once all is well again; and beside a queue that never answers, whose
// connection is given up after up to a minute and whose neighbours are probed then.
constexpr Ms kMovedOn{8000}, kMovedOnBeside{100'000};

std::string times(const Attempt& attempt) {
  std::string out = "attempt " + std::to_string(attempt.attempt) + ", level " +
                    std::to_string(attempt.level) + ", due " + format_utc(attempt.due_at);
  if (attempt.published_at) out += ", published " + format_utc(*attempt.published_at);
  out += ", " + std::string(to_word(attempt.outcome));
  if (!attempt.error.empty()) out += ", " + attempt.error;
  return out;
}

bool any(const std::map<int, bool>& words) {
  return std::ranges::any_of(words, [](const auto& word) { return word.second; });
}

}  // namespace

void Judge::final_look(const std::string& dead_queue) {
  for (const auto& [number, entry] : entries_) {
    if (number > 0) judge_message(number, entry, dead_queue);
  }
}

std::vector<TaskId> Judge::judge_ended(EpochMs before) {
  std::vector<TaskId> parked;
  std::erase_if(facts_, [&](const auto& known) {
    const auto& [id, facts] = known;
    const auto row = store_->find(id);
    const auto entry = entries_.find(facts.message);
    if (!row) {
      if (entry != entries_.end()) broken("nothing is lost: its row is gone", facts.message);
      return true;  // a late answer to a task that was forgotten
    }
    const Task& task = row->task;
    if (!task.finished_at || *task.finished_at >= before) return false;
    if (task.next_at) return false;  // the copy of a parked one is owed: faults may delay it for long
    judge_row(*row, facts, "");
    judge_history(*row, facts);
    if (task.state == State::parked) {
      parked.push_back(id);
      return false;
    }
    if (entry != entries_.end() && std::erase(entry->second.tasks, id) > 0 && entry->second.tasks.empty())
      entries_.erase(entry);
    return true;
  });
  return parked;
}

void Judge::judge_message(int number, const Entry& entry, const std::string& dead_queue) {
  if (!entry.accepted) return;
  if (entry.tasks.empty()) return broken("nothing is lost: it was accepted and has no row", number);
  for (const TaskId id : entry.tasks) {
    const auto row = store_->find(id);
    if (!row) return broken("nothing is lost: its row is gone", number);
    judge_row(*row, facts_.at(id), dead_queue);
    judge_history(*row, facts_.at(id));
  }
}

void Judge::judge_row(const TaskRow& row, const Facts& facts, const std::string& dead_queue) {
  const Task& task = row.task;
  const EpochMs now = world_.db->now();
  const bool late = task.next_at && now - *task.next_at > (dead_queue.empty() ? kMovedOn : kMovedOnBeside);
  if (late && task.queue != dead_queue)
    return broken("every row is moved on: it is " + std::string(to_word(task.state)) + " and due for " +
                      std::to_string((now - *task.next_at).count()) + " ms",
                  facts.message);
  const auto arrivals = facts.arrivals.find(task.attempt);
  const bool came = arrivals != facts.arrivals.end() && !arrivals->second.empty();
  const auto word = facts.failed_word.find(task.attempt);
  // A failure that the broker dropped is known to nobody.
  const bool failed =
      word != facts.failed_word.end() && word->second && !facts.dropped_word.contains(task.attempt);
  const bool presumed = task.state == State::succeeded && task.finished_by == FinishedBy::presumed;
  switch (task.state) {
    case State::awaiting:
      if (!came) return broken("nothing is lost: it awaits an answer and was never delivered", facts.message);
      if (failed) return broken("a consumer's word counts: it failed, and the row awaits", facts.message);
      return;
    case State::succeeded:
      if (presumed && !came)
        return broken("nothing is lost: presumed a success and never delivered", facts.message);
      if (presumed && failed)
        return broken("a consumer's word counts: it failed, and the row presumes", facts.message);
      if (!presumed && !any(facts.succeeded_word) && !facts.succeeded_by_hand)
        return broken("history is what happened: nobody said that it succeeded", facts.message);
      return;
    case State::cancelled:
    case State::discarded:
      if (!facts.given_up) return broken("history is what happened: nobody gave it up", facts.message);
      return;
    case State::unknown:
      return broken("a state that another version wrote is left alone", facts.message);
    case State::parked:
      // A message that continues another task's ladder may find it spent.
      if (facts.claims.empty() && task.parent == TaskId{} && entries_[facts.message].due_us != kNever)
        return broken("nothing parks without a reason: " + task.last_error, facts.message);
      return;
    default:
      return;
  }
}

void Judge::judge_history(const TaskRow& row, const Facts& facts) {
  const auto history = store_->history(row.task.id);
  for (const auto& [attempt, arrivals] : facts.arrivals) {
    const bool told = std::ranges::any_of(
        history, [&, n = attempt](const AttemptRow& r) { return r.attempt.attempt == n; });
    if (!arrivals.empty() && !told)
      return broken("history is what happened: attempt " + std::to_string(attempt) + " is missing",
                    facts.message);
  }
  const auto has = [](const std::map<int, bool>& words, int attempt) {
    const auto found = words.find(attempt);
    return found != words.end() && found->second;
  };
  for (const AttemptRow& told : history) {
    const Attempt& attempt = told.attempt;
    const int n = attempt.attempt;
    const auto arrivals = facts.arrivals.find(n);
    const bool came = arrivals != facts.arrivals.end() && !arrivals->second.empty();
    bool true_word = true;
    if (attempt.published_at && !came && !has(facts.returned, n)) true_word = false;
    if (attempt.outcome == Outcome::failed) true_word = has(facts.failed_word, n) || facts.failed_by_hand;
    if (attempt.outcome == Outcome::returned) true_word = has(facts.returned, n);
    if (attempt.outcome == Outcome::timed_out)
      true_word = came && (world_.rules->queue(row.task.queue).silence.means == Silence::Means::failure ||
                           attempt.error.starts_with("how it ended is not known: its silence was held open"));
    if (attempt.outcome == Outcome::succeeded)
      true_word = came || has(facts.succeeded_word, n) || facts.succeeded_by_hand;
    if (!true_word) return broken("history is what happened: " + times(attempt), facts.message);
  }
}

std::vector<std::string> Judge::rows_of(int message) {
  std::vector<std::string> out;
  for (const TaskId id : tasks_of(message)) {
    const auto row = store_->find(id);
    if (!row) continue;
    const Task& task = row->task;
    const auto shards = store_->shards();
    const ShardRow& shard = shards[static_cast<std::size_t>(task.shard)];
    out.push_back("its shard is node " + std::to_string(shard.owner) + "'s, epoch " +
                  std::to_string(shard.epoch));
    out.push_back("row " + id.str() + ": " + std::string(to_word(task.state)) + ", attempt " +
                  std::to_string(task.attempt) + ", level " + std::to_string(task.level) + ", shard " +
                  std::to_string(task.shard) + ", queue " + task.queue +
                  (task.next_at ? ", next " + format_utc(*task.next_at) : "") + ", " + task.last_error);
    for (const AttemptRow& attempt : store_->history(id)) out.push_back("  " + times(attempt.attempt));
  }
  return out;
}

}  // namespace rung::sim
