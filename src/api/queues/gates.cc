#include "src/api/queues/gates.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "src/core/base/time.h"

namespace rung::api {
namespace {

struct AllGates {
  std::map<std::string, Pause> pauses;
  std::map<std::string, GateState> states;
  EpochMs now;

  std::optional<QueueGate> of(const std::string& queue) const {
    const auto pause = pauses.find(queue);
    const auto state = states.find(queue);
    return shown_gate(pause == pauses.end() ? nullptr : &pause->second,
                      state == states.end() ? nullptr : &state->second, now);
  }
};

Result<AllGates> read_gates(MysqlStore& store) {
  AllGates known;
  auto pauses = store.pauses();
  if (!pauses) return tl::unexpected(pauses.error());
  for (Pause& pause : *pauses) known.pauses[pause.queue] = std::move(pause);
  auto states = store.gate_states();
  if (!states) return tl::unexpected(states.error());
  for (GateState& state : *states) known.states[state.queue] = std::move(state);
  const auto now = store.now();
  if (!now) return tl::unexpected(now.error());
  known.now = *now;
  return known;
}

// Whether a task that is due at `due` waits for this gate.
bool holds_back(const QueueGate& gate, EpochMs due, EpochMs now) {
  if (due <= now) return true;
  if (gate.state == "rate_limited" || gate.state == "breaker_half_open") return false;
  return !gate.until || due < *gate.until;
}

std::string without_prefix(std::string text, std::string_view prefix) {
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  return text;
}

}  // namespace

Result<std::map<std::string, std::int64_t>> unread_queues(MysqlStore& store) {
  constexpr std::size_t kMost = 1000;  // as many are looked at
  std::map<std::string, std::int64_t> unread;
  const auto queues = store.awaiting_queues(kMost);
  if (!queues) return tl::unexpected(queues.error());
  if (queues->empty()) return unread;
  const auto records = store.attachments(*queues);
  if (!records) return tl::unexpected(records.error());
  for (const auto& [queue, record] : *records) {
    const auto& reading = record.reading;
    if (reading && reading->consumers == 0 && reading->ready > 0) unread[queue] = reading->ready;
  }
  return unread;
}

Result<std::vector<QueueGate>> read_queues(MysqlStore& store) {
  auto gates = gates_in_force(store);
  if (!gates) return gates;
  const auto open = store.open_by_queue();
  const auto known = store.attachments({});
  if (!open) return tl::unexpected(open.error());
  if (!known) return tl::unexpected(known.error());
  const auto unread = unread_queues(store);
  if (!unread) return tl::unexpected(unread.error());
  std::map<std::string, QueueGate> all;
  for (QueueGate& gate : *gates) all[gate.queue] = std::move(gate);
  for (const QueueStat& stat : *open) {
    QueueGate& gate = all[stat.queue];
    if (stat.state == State::parked) gate.parked = stat.tasks;
    if (stat.state != State::scheduled) continue;
    gate.waiting = stat.tasks;
    gate.next_at = stat.oldest_due_at;
  }
  all.erase("");  // of tasks without one
  for (const auto& [queue, record] : *known) {
    if (record.state == AttachmentState::unattached) continue;
    const bool attached = record.state == AttachmentState::attached;
    if (attached || all.contains(queue)) all[queue].attached = attached;
  }
  for (const auto& [queue, ready] : *unread) all[queue].unread = ready;
  gates->clear();
  for (auto& [queue, gate] : all) {
    gate.queue = queue;
    if (gate.state.empty()) gate.state = "flowing";
    gates->push_back(std::move(gate));
  }
  return gates;
}

Result<std::optional<QueueGate>> gate_of(MysqlStore& store, const std::string& queue) {
  const auto known = read_gates(store);
  if (!known) return tl::unexpected(known.error());
  return known->of(queue);
}

Result<std::vector<QueueGate>> gates_in_force(MysqlStore& store) {
  const auto known = read_gates(store);
  if (!known) return tl::unexpected(known.error());
  std::set<std::string> queues;
  for (const auto& [queue, pause] : known->pauses) queues.insert(queue);
  for (const auto& [queue, state] : known->states) queues.insert(queue);
  std::vector<QueueGate> gates;
  for (const std::string& queue : queues) {
    if (auto gate = known->of(queue)) gates.push_back(*std::move(gate));
  }
  return gates;
}

Result<std::optional<QueueGate>> holding_gate(MysqlStore& store, const Task& task) {
  if (task.queue.empty() || task.state != State::scheduled) return std::nullopt;
  const auto known = read_gates(store);
  if (!known) return tl::unexpected(known.error());
  auto gate = known->of(task.queue);
  if (gate && task.next_at && !holds_back(*gate, *task.next_at, known->now)) return std::nullopt;
  return gate;
}

std::string state_text(const QueueGate& gate) {
  if (gate.state == "breaker_half_open") return "breaker half-open";
  std::string text = gate.state;
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::string gate_text(const QueueGate& gate) {
  const std::string queue = "queue " + gate.queue;
  const std::string until = gate.until ? " until " + format_utc(*gate.until) + " UTC" : "";
  std::string text;
  if (gate.state == "paused") {
    text = queue + " is paused" + (gate.until ? until : " until it is resumed") + " by " + gate.by;
  } else if (gate.state == "outside_window") {
    text = queue + " is outside its window" + until;
  } else if (gate.state == "rate_limited") {
    text = "waits for the rate of queue " + gate.queue;
  } else if (gate.state == "breaker_half_open") {
    text = queue + ": " + state_text(gate) + ", only probes go out";
  } else {
    text = queue + ": " + state_text(gate) + until;
  }
  const std::string reason = without_prefix(gate.reason, "window ");
  return reason.empty() ? text : text + " (" + reason + ")";
}

Json gate_json(const QueueGate& gate) {
  return {{"queue", gate.queue},
          {"state", gate.state},
          {"since", time_or_null(gate.since)},
          {"until", time_or_null(gate.until)},
          {"reason", text_or_null(gate.reason)},
          {"by", text_or_null(gate.by)}};
}

Json to_json(const QueueGate& gate) {
  Json json = gate_json(gate);
  json["waiting"] = gate.waiting;
  json["next_due_at"] = time_or_null(gate.next_at);
  json["parked"] = gate.parked;
  json["attached"] = gate.attached ? Json(*gate.attached) : Json();
  json["unread"] = gate.unread;
  return json;
}

}  // namespace rung::api
