#include "src/store/store.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <utility>
#include <variant>

#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"

namespace rung {
namespace {

using Json = nlohmann::ordered_json;

// Names and texts are bytes of anybody's.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// In which states decide() may allow it; first the one that is meant if the filter names none.
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

// Of a bulk as a whole. It is found by the queue that its filter names.
AuditRow row_of(const Bulk& b, EpochMs at, const std::string& who, std::string_view what, Json facts,
                const std::string& reason) {
  if (std::string queue = queue_of(b); !queue.empty()) facts["queue"] = std::move(queue);
  return {0, at, who, std::string(what), TaskId{}, "{}", dump(facts), reason, b.id};
}

std::string json_of(const Pause& pause) {
  return dump({{"queue", pause.queue},
               {"since", format_utc(pause.since)},
               {"until", pause.until ? Json(format_utc(*pause.until)) : Json()},
               {"reason", pause.reason}});
}

constexpr std::string_view kId = "database_id", kServes = "serves_broker";

// Short: it is part of an error text of RabbitMQ, which is cut after 255 bytes.
std::string new_id() {
  std::random_device random;
  std::string bytes;
  for (int i = 0; i < 6; ++i) bytes += static_cast<char>(random() & 0xFF);
  return to_hex(bytes);
}

// None for a text that to_text() cannot have made.
std::optional<BrokerPlace> place_from_text(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  BrokerPlace place;
  for (const auto& [name, field] :
       {std::pair{"cluster", &place.cluster}, {"space", &place.space}, {"prefix", &place.prefix}}) {
    const auto it = json.find(name);
    if (it == json.end() || !it->is_string()) return std::nullopt;
    *field = it->get<std::string>();
  }
  return place;
}

Ownership read_settings(Store& store, std::string_view id_if_none, std::string_view place_if_none) {
  Ownership ownership{store.setting(kId, id_if_none), {}};
  const std::string serves = store.setting(kServes, place_if_none);
  // A text that somebody else wrote is a place that no broker is.
  if (!serves.empty()) ownership.serves = place_from_text(serves).value_or(BrokerPlace{serves, "", ""});
  return ownership;
}

constexpr std::string_view kAdopt =
    "If this broker and this database do belong together (a renamed or new cluster, a new or restored "
    "database), run `rung adopt`. See docs/operations.md";

}  // namespace

// --- tasks

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

std::optional<CountBy> CountBy::parse(std::string_view text) {
  constexpr std::string_view kHeader = "header.";
  if (text.starts_with(kHeader) && text != kHeader)
    return CountBy{"header", std::string(text.substr(kHeader.size()))};
  constexpr std::array<std::string_view, 5> kFields{"queue", "error_type", "tag", "level", "cause"};
  if (std::ranges::find(kFields, text) == kFields.end()) return std::nullopt;
  return CountBy{std::string(text)};
}

std::optional<EpochMs> due_of(const Task& task) {
  const bool waits = task.state == State::scheduled || task.state == State::publishing;
  return waits ? task.next_at : std::nullopt;
}

// --- bulks

Filter of_bulk(const NewBulk& bulk) {
  Filter filter = bulk.filter;
  filter.after.reset();
  if (filter.states.empty()) filter.states = {states_of(bulk.action).front()};
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

// --- gates of queues

std::optional<Pause> paused(const std::optional<Pause>& before, const NewPause& request, EpochMs now) {
  const bool in_force = before && !before->over;
  const Pause after{
      request.queue, in_force ? before->since : now, request.until, request.who, request.reason, "", false};
  if (in_force && *before == after) return std::nullopt;  // repeated after a lost answer
  return after;
}

std::optional<Pause> resumed(const std::optional<Pause>& before, const std::string& who, EpochMs now) {
  if (!before || before->over) return std::nullopt;
  Pause after = *before;
  after.until = now;
  after.resumed_by = who;
  after.over = true;
  return after;
}

std::optional<Pause> hold_in_force(const GateState& state, EpochMs now) {
  const auto& hold = state.retry_after;
  if (!hold || hold->until <= now) return std::nullopt;
  return Pause{state.queue, hold->since, hold->until, "retry-after", hold->reason, "", false};
}

AuditRow audit_of(const std::optional<Pause>& before, const Pause& after, const std::string& reason,
                  EpochMs now) {
  const std::string& who = after.over ? after.resumed_by : after.who;
  const std::string was = before && !before->over ? json_of(*before) : "{}";
  return {0, now, who, after.over ? "resume" : "pause", TaskId{}, was, json_of(after), reason};
}

SystemEvent event_of(const Pause& after, const std::string& reason) {
  std::string detail = "by " + (after.over ? after.resumed_by : after.who);
  if (!after.over)
    detail = "until " + (after.until ? format_utc(*after.until) + " UTC" : "it is resumed") + ", " + detail;
  if (!reason.empty()) detail += ": " + reason;
  return {after.over ? "queue_resumed" : "queue_paused", after.queue, detail};
}

std::optional<QueueGate> shown_gate(const Pause* pause, const GateState* state, EpochMs now) {
  const auto gate = gate_in_force(held_by(pause, state, now), now);
  if (!gate) return std::nullopt;
  return QueueGate{pause != nullptr ? pause->queue : state->queue,
                   std::string(gate->word),
                   gate->since,
                   gate->until,
                   std::string(gate->reason),
                   std::string(gate->who)};
}

// --- which broker the database serves

std::string to_text(const BrokerPlace& place) {
  return dump({{"cluster", place.cluster}, {"space", place.space}, {"prefix", place.prefix}});
}

Ownership read_ownership(Store& store, const std::optional<BrokerPlace>& if_none) {
  auto there = look_at_ownership(store);  // nearly always complete: then nothing is written
  if (!there.database.empty() && (there.serves || !if_none)) return there;
  return read_settings(store, new_id(), if_none ? to_text(*if_none) : "");
}

Ownership look_at_ownership(Store& store) { return read_settings(store, "", ""); }

std::string change_ownership(Store& store, const BrokerPlace& place) {
  std::string id = new_id();
  store.set_setting(kId, id);
  store.set_setting(kServes, to_text(place));
  return id;
}

std::string conflict(const Ownership& ownership, const PlaceReport& report) {
  if (ownership.serves && to_text(*ownership.serves) != to_text(report.place)) {
    return "this database serves " + describe(*ownership.serves) + ", but this config names " +
           describe(report.place) +
           ". Correct broker or store in the config (was it copied?): each broker, virtual host and prefix "
           "needs a database of its own. " +
           std::string(kAdopt);
  }
  if (!report.owner.empty() && report.owner != report.asked_for) {
    return "another database (id " + report.owner + ", this one is " + report.asked_for + ") serves " +
           describe(report.place) +
           ". Correct broker or store in the config (was it copied?), or give this installation a "
           "broker.prefix of its own. " +
           std::string(kAdopt);
  }
  return "";
}

std::string shared(const PlaceReport& report, std::size_t live) {
  if (report.owner != report.asked_for || report.consumers <= static_cast<std::int64_t>(live)) return "";
  return std::to_string(report.consumers) + " instances serve " + describe(report.place) + ", and only " +
         std::to_string(live) +
         " of them use this database: the others use a copy of it, and the two send messages twice. Run "
         "`rung "
         "adopt --yes` with the database that is to stay: the others then stop. See docs/operations.md";
}

}  // namespace rung
