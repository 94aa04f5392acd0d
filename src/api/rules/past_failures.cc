#include "src/api/rules/past_failures.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "src/api/json/json.h"
#include "src/core/base/ids.h"
#include "src/core/machine/edit.h"
#include "src/core/machine/headers.h"

namespace rung::api {
namespace {

constexpr int kTasksAPage = 1000;
// Deliveries of a replay are a little earlier than the recorded ones, which were published and answered some
// ms late at each step. What was seen at a delivery therefore holds from this much before it.
constexpr Ms kSeenFrom{1000};

using Attempts = std::span<const AttemptRow>;

bool has_failed(const Attempt& attempt) {
  return attempt.outcome == Outcome::failed || attempt.outcome == Outcome::timed_out ||
         attempt.outcome == Outcome::returned;
}

EpochMs delivered_at(const Attempt& attempt) {
  // Late ones say nothing about the time at which they were due.
  const EpochMs published = attempt.published_at.value_or(attempt.due_at);
  return published - attempt.due_at < kSeenFrom ? attempt.due_at : published;
}

// From when on what was seen at `delivered` holds, if something else was seen at `before`.
EpochMs seen_from(EpochMs delivered, EpochMs before) {
  return delivered - std::min(kSeenFrom, std::max(delivered - before, Ms{0}) / 2);
}

Ms answer_of(const Attempt& attempt) {
  if (!attempt.published_at || !attempt.outcome_at) return Ms{0};
  return std::max(*attempt.outcome_at - *attempt.published_at, Ms{0});
}

// A row has the type of the last failure only; the earlier ones are taken to have had the same.
FailureText text_of(const Task& task, const Attempt& attempt) {
  if (attempt.outcome == Outcome::timed_out) return {attempt.error, "timed_out", FailureText::How::silent};
  if (attempt.outcome == Outcome::returned) return {attempt.error, "returned", FailureText::How::returned};
  const bool others = task.error_type == "timed_out" || task.error_type == "returned";
  return {attempt.error, others ? "" : task.error_type, FailureText::How::reported};
}

// The first failure has no attempt. What the consumer said is in the origin; else it is taken to have said
// what it said next.
FailureText first_text(const KnownTask& known, Attempts attempts) {
  const Task& task = known.row.task;
  FailureText text;
  const auto first =
      std::ranges::find_if(attempts, [](const AttemptRow& row) { return has_failed(row.attempt); });
  if (first != attempts.end()) {
    text = text_of(task, first->attempt);
    text.how = FailureText::How::reported;
  } else {
    text = {task.last_error, task.error_type, FailureText::How::reported};
  }
  const auto origin = Json::parse(known.origin, nullptr, false);
  const auto said = [&](std::string_view header, std::string& into) {
    if (!origin.is_object()) return;
    const auto value = origin.find(std::string(header));
    if (value != origin.end() && value->is_string()) into = value->get<std::string>();
  };
  said(header::kError, text.error);
  said(header::kErrorType, text.type);
  return text;
}

class HistoryReader {
 public:
  // `attempts`: of the task, by attempt.
  void add(const KnownTask& known, Attempts attempts) {
    const Task& task = known.row.task;
    FailedMessage message;
    message.tag = task.tag;
    message.headers = task.rule_headers;
    if (task.ladder_pinned) message.ladder = task.ladder;
    message.max_attempts = task.max_attempts;
    message.failures.push_back(
        {task.first_failed_at, past_.log.text(first_text(known, attempts)), Ms{0}, {}});
    EpochMs before = task.first_failed_at;
    for (const AttemptRow& row : attempts) {
      if (row.attempt.due_at < task.first_failed_at) continue;  // a delay's delivery, before it failed
      count(row.attempt);
      if (!has_failed(row.attempt)) continue;
      const EpochMs at = delivered_at(row.attempt);
      message.failures.push_back({std::max(seen_from(at, before), message.failures.back().at),
                                  past_.log.text(text_of(task, row.attempt)),
                                  answer_of(row.attempt),
                                  {}});
      before = at;
    }
    add_success(task, attempts, before, message);
    if (message.works_at) past_.present.to_success.push_back(*message.works_at - task.first_failed_at);
    if (message.failures.size() > 1) message.failures.front().answer = message.failures[1].answer;
    count(task);
    past_.log.add(std::move(message));
  }

  PastFailures take() {
    std::ranges::sort(past_.present.deliveries);
    std::ranges::sort(past_.present.to_success);
    return std::move(past_);
  }

 private:
  static void add_success(const Task& task, Attempts attempts, EpochMs before, FailedMessage& message) {
    if (task.state != State::succeeded) return;
    message.reported = task.finished_by == FinishedBy::reported;
    message.works_at = task.finished_at;  // finished by hand
    for (const AttemptRow& row : attempts) {
      if (row.attempt.outcome != Outcome::succeeded) continue;
      message.works_at = seen_from(delivered_at(row.attempt), before);
      message.answer = answer_of(row.attempt);
    }
  }

  void count(const Attempt& attempt) {
    if (!attempt.published_at) return;
    past_.present.deliveries.push_back(*attempt.published_at);
    const Ms late = *attempt.published_at - attempt.due_at;
    if (late < kHeldBack) return;
    held_ = true;
    past_.present.held_total += late;
    past_.present.held_longest = std::max(past_.present.held_longest, late);
  }

  void count(const Task& task) {
    ReplayTotals& present = past_.present;
    ++present.messages;
    if (held_) ++present.held;
    held_ = false;
    switch (task.state) {
      case State::succeeded:
        ++present.succeeded;
        break;
      case State::parked:
        ++present.parked;
        if (task.rule == "give_up") ++present.given_up;
        break;
      case State::discarded:
        ++present.discarded;
        break;
      case State::cancelled:
        ++present.cancelled;
        break;
      default:
        ++present.waiting;
    }
  }

  PastFailures past_;
  bool held_ = false;  // the task that is added was held back
};

}  // namespace

Result<PastFailures> past_failures(QueryStore& store, const std::string& queue, EpochMs since,
                                   std::int64_t limit) {
  HistoryReader reader;
  Filter filter;
  filter.queue = queue;
  std::int64_t read = 0;
  while (true) {
    filter.limit = kTasksAPage;
    const auto page = store.list(filter);
    if (!page) return tl::unexpected(page.error());
    std::vector<TaskId> ids;
    for (const TaskRow& row : *page) {
      // Ids are ordered by time: a condition on created_at would make the database look for more of them.
      if (IdSource::made_at(row.task.id) >= since && row.task.first_failed_at.ms != 0)
        ids.push_back(row.task.id);
    }
    const bool cut = read + static_cast<std::int64_t>(ids.size()) > limit;
    if (cut) ids.resize(static_cast<std::size_t>(limit - read));
    read += static_cast<std::int64_t>(ids.size());
    const auto known = store.known(ids);
    if (!known) return tl::unexpected(known.error());
    const auto attempts = store.histories(ids);
    if (!attempts) return tl::unexpected(attempts.error());
    for (const KnownTask& task : *known) {
      if (!edit_content_of_origin(task.origin).empty()) continue;  // a person's doing
      const auto task_of = [](const AttemptRow& row) { return row.attempt.task; };
      const auto begin = std::ranges::lower_bound(*attempts, task.row.task.id, {}, task_of);
      const auto end = std::ranges::upper_bound(*attempts, task.row.task.id, {}, task_of);
      reader.add(task, Attempts(begin, end));
    }
    const bool last = page->size() < static_cast<std::size_t>(filter.limit) ||
                      IdSource::made_at(page->back().task.id) < since;
    if (cut || last) {
      PastFailures past = reader.take();
      past.cut = cut;
      return past;
    }
    filter.after = page->back().task.id;
  }
}

}  // namespace rung::api
