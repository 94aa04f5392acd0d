#include "src/store/store.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <variant>

#include "src/core/base/utf8.h"

namespace rung {

std::vector<TaskId> first_claimed(std::span<const Decision> decisions, std::size_t most_bytes) {
  std::vector<TaskId> ids;
  std::size_t bytes = 0;
  for (const Decision& decision : decisions) {
    if (decision.verdict != Decision::Verdict::applied) continue;
    bytes += message_bytes(decision.task);
    if (!ids.empty() && bytes > most_bytes) break;
    ids.push_back(decision.task.id);
  }
  return ids;
}

namespace {

// In which states decide() may allow it.
std::vector<State> states_of(BulkAction action) {
  switch (action) {
    case BulkAction::cancel:
    case BulkAction::fire:
      return {State::scheduled};
    case BulkAction::redrive:
      return {State::parked, State::scheduled, State::awaiting, State::succeeded};
    case BulkAction::succeed:
      return {State::awaiting};
    case BulkAction::fail:
      return {State::awaiting, State::succeeded};
    case BulkAction::discard:
      break;
  }
  return {State::parked, State::scheduled};
}

}  // namespace

std::optional<CountBy> CountBy::parse(std::string_view text) {
  constexpr std::string_view kHeader = "header.";
  if (text.starts_with(kHeader) && text != kHeader)
    return CountBy{"header", std::string(text.substr(kHeader.size()))};
  constexpr std::array<std::string_view, 5> kFields{"queue", "error_type", "tag", "level", "cause"};
  if (std::ranges::find(kFields, text) == kFields.end()) return std::nullopt;
  return CountBy{std::string(text)};
}

std::optional<EndedPlace> ended_after(State state) {
  const auto here = std::ranges::find(kEndedStates, state);
  if (here == kEndedStates.end() || here + 1 == kEndedStates.end()) return std::nullopt;
  return EndedPlace{*(here + 1)};
}

std::optional<EpochMs> due_of(const Task& task) {
  const bool waits = task.state == State::scheduled || task.state == State::publishing;
  return waits ? task.next_at : std::nullopt;
}

Filter of_bulk(const NewBulk& bulk) {
  Filter filter = bulk.filter;
  filter.after.reset();
  if (filter.states.empty()) {
    const bool parked = bulk.action == BulkAction::redrive || bulk.action == BulkAction::discard;
    const bool finish = is_finish(bulk.action);
    filter.states = {finish ? State::awaiting : parked ? State::parked : State::scheduled};
  }
  if (bulk.action == BulkAction::redrive) filter.body_stored = true;
  // What is being handled just now is not meant.
  if (is_finish(bulk.action) && filter.states == std::vector{State::awaiting}) filter.silence_held = true;
  return filter;
}

std::string refused_states(const NewBulk& bulk) {
  const std::vector<State> allowed = states_of(bulk.action);
  const std::vector<State> asked = of_bulk(bulk).states;
  const auto is_allowed = [&](State state) { return std::ranges::find(allowed, state) != allowed.end(); };
  if (std::ranges::any_of(asked, is_allowed)) return {};
  std::string words, possible;
  for (const State state : asked) words.append(words.empty() ? "" : " or ").append(to_word(state));
  for (const State state : allowed) possible.append(possible.empty() ? "" : " or ").append(to_word(state));
  return std::string(to_word(bulk.action)) + " changes only tasks that are " + possible + ", none that is " +
         words;
}

Event event_of(const Bulk& bulk, TaskId id) {
  Event event{id, event::Cancel{}, ByHand{bulk.who, {}, bulk.reason, bulk.id}};
  if (bulk.action == BulkAction::fire) event.what = event::Fire{};
  if (bulk.action == BulkAction::redrive)
    event.what = event::Redrive{
        .elsewhere = bulk.elsewhere, .even_reported = bulk.even_reported, .chosen_at = bulk.created_at};
  if (is_finish(bulk.action)) {
    const bool succeeded = bulk.action == BulkAction::succeed;
    event.what = event::Finish{succeeded, succeeded ? "" : bulk.reason, {}, 0, bulk.even_reported, true};
  }
  if (bulk.action == BulkAction::discard) event.what = event::Discard{};
  return event;
}

bool has_ended(const Bulk& bulk) {
  const bool early = bulk.state == BulkState::aborted || bulk.state == BulkState::stopped;
  return bulk.state == BulkState::done || (early && bulk.done > 0);
}

std::string describe_end(const Bulk& bulk) {
  std::string text = std::string(to_word(bulk.action)) + ": " + std::to_string(bulk.done) + " of " +
                     std::to_string(bulk.total) + " processed, " + std::to_string(bulk.applied) +
                     " changed, " + std::to_string(bulk.refused) + " refused";
  if (bulk.state != BulkState::done) text.append("; ").append(to_word(bulk.state));
  if (!bulk.stopped_because.empty()) text += ": " + bulk.stopped_because;
  return text;
}

namespace {

using Json = nlohmann::ordered_json;

// Of a bulk as a whole. It is found by the queue that its filter names.
AuditRow row_of(const Bulk& b, EpochMs at, const std::string& who, std::string_view what, Json facts,
                const std::string& reason) {
  if (std::string queue = queue_of(b); !queue.empty()) facts["queue"] = std::move(queue);
  const std::string after = facts.dump(-1, ' ', false, Json::error_handler_t::replace);
  return {0, at, who, std::string(what), TaskId{}, "{}", after, reason, b.id};
}

}  // namespace

std::string queue_of(const Bulk& b) {
  const Json filter = Json::parse(b.filter_text, nullptr, false);
  return filter.is_object() ? filter.value("queue", "") : "";
}

AuditRow audit_of_new(const Bulk& b) {
  const std::string_view what = name_of(event_of(b, TaskId{}).what);
  return row_of(b, b.created_at, b.who, what, {{"tasks", b.total}}, b.reason);
}

AuditRow audit_of_change(const Bulk& b) {
  const char* what = b.state == BulkState::paused    ? "pause"
                     : b.state == BulkState::aborted ? "abort"
                                                     : "resume";
  const Json facts = {{"state", to_word(b.state)}, {"rate", b.rate}, {"done", b.done}};
  return row_of(b, b.changed_at.value(), b.changed_by, what, facts, b.changed_because);
}

SystemEvent event_of_change(const Bulk& b) {
  const std::string kind = b.state == BulkState::running ? "resumed" : std::string(to_word(b.state));
  std::string detail =
      "by " + b.changed_by + " at " + std::to_string(b.done) + " of " + std::to_string(b.total);
  if (!b.changed_because.empty()) detail += ": " + b.changed_because;
  return {"bulk_" + kind, std::to_string(b.id), std::move(detail)};
}

bool has_failed(const SentTask& task) {
  const bool parked_unsent = task.outcome == Outcome::pending && task.state == State::parked;
  return task.outcome == Outcome::failed || task.outcome == Outcome::timed_out ||
         task.outcome == Outcome::returned || parked_unsent;
}

bool is_withdrawn(const SentTask& task) {
  const bool succeeded_unsent = task.state == State::succeeded && !task.published_at;
  return task.outcome == Outcome::pending &&
         (task.state == State::cancelled || task.state == State::discarded || succeeded_unsent);
}

AttachmentRecords attachments_of(Store& store, const std::vector<SentTask>& sent) {
  std::set<std::string> queues;
  for (const SentTask& task : sent) queues.insert(task.queue);
  if (queues.empty()) return {};
  return store.attachments(std::vector<std::string>(queues.begin(), queues.end()));
}

std::optional<EpochMs> when_read(const SentTask& task, const AttachmentRecords& records) {
  const auto known = records.find(task.queue);
  if (!task.published_at || known == records.end() || !known->second.reading) return task.published_at;
  constexpr Ms kClocksDiffer{100};  // of the instances: one looks, another has delivered
  return read_at(*known->second.reading, *task.published_at + kClocksDiffer);
}

std::string unread_among(const std::vector<SentTask>& sent, const AttachmentRecords& records) {
  for (const SentTask& task : sent) {
    const bool open = task.state == State::awaiting && task.outcome == Outcome::pending && task.published_at;
    if (!open || when_read(task, records)) continue;
    const QueueReading& reading = *records.find(task.queue)->second.reading;
    if (reading.ready > 0) return unread_because(task.queue, reading);
  }
  return {};
}

SentCounts count(const std::vector<SentTask>& sent) {
  SentCounts counts;
  for (const SentTask& task : sent) {
    if (is_withdrawn(task)) continue;
    ++counts.sent;
    if (task.outcome == Outcome::succeeded) {
      ++counts.succeeded;
    } else if (has_failed(task)) {
      ++counts.failed;
    } else {
      ++(task.published_at ? counts.open : counts.unsent);
    }
  }
  return counts;
}

}  // namespace rung
