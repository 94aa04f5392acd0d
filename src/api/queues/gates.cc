// /v1/queues: what holds queues back, pause and resume. Pauses are kept in the database: every sidecar reads
// them there (src/bridge/flight/gates.h).
#include "src/api/queues/gates.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "src/api/base/context.h"
#include "src/api/queues/rules.h"
#include "src/core/base/time.h"
#include "src/core/base/utf8.h"

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

AllGates read_gates(MysqlStore& store) {
  AllGates known;
  for (Pause& pause : store.pauses()) known.pauses[pause.queue] = std::move(pause);
  for (GateState& state : store.gate_states()) known.states[state.queue] = std::move(state);
  known.now = store.now();
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

Json shown_queue_json(const QueueGate& gate) {
  Json json = gate_json(gate);
  json["waiting"] = gate.waiting;
  json["next_due_at"] = time_or_null(gate.next_at);
  json["parked"] = gate.parked;
  json["attached"] = gate.attached ? Json(*gate.attached) : Json();
  json["unread"] = gate.unread;
  return json;
}

// Whether the database knows the queue.
bool has_seen(MysqlStore& store, const std::string& queue) {
  if (!store.attachments({&queue, 1}).empty()) return true;
  const auto tasks = result_of([&] { return store.count({.queue = queue}, 1); });
  if (!tasks && tasks.error().kind == Error::Kind::permanent) return false;  // a pattern, not a queue
  return or_throw(tasks) > 0;
}

// No queue of that name can be paused. It need not exist.
void refuse_name(Context& context, const std::string& queue) {
  std::string why = wrong_queue_name(queue);
  Target target;
  target.queue = queue;
  if (why.empty()) why = own_target(target, context.rules()->targets());
  if (!why.empty()) throw Problem(400, std::move(why));
}

// The store refuses to count the tasks of a pattern.
void refuse_pattern(MysqlStore& store, const std::string& queue) { store.count({.queue = queue}, 1); }

// The next probe of the queue's breaker is due now. Sidecars read that within a second.
void probe_now(MysqlStore& store, const Call& call, const std::string& reason) {
  store.change_gate(call.id, [&](GateState& state, EpochMs now) -> std::vector<SystemEvent> {
    Breaker& breaker = state.breaker;
    if (breaker.state != Breaker::State::open || !breaker.until || *breaker.until <= now) return {};
    breaker.until = now;
    return {{"breaker_probed", call.id, "by " + call.who + (reason.empty() ? "" : ": " + reason)}};
  });
}

// With the names of the columns of retry_queues.
Json pause_json(const Pause& pause) {
  Json json = {{"queue", pause.queue},
               {"state", pause.over ? "flowing" : "paused"},
               {"since", to_rfc3339(pause.since)},
               {"until", time_or_null(pause.until)},
               {"reason", text_or_null(pause.reason)},
               {"by", text_or_null(pause.who)}};
  if (pause.over) json["resumed_by"] = text_or_null(pause.resumed_by);
  return json;
}

// The pause that ended, or the retry-after; `ended` names both, `retry_after` is the reason of the latter.
// Without either the queue alone; the rest is null.
Json resumed_json(const std::string& queue, const Resumed& resumed, bool probes) {
  const auto& [pause, retry_after] = resumed;
  Json json = {{"queue", queue}, {"since", nullptr},      {"until", nullptr}, {"reason", nullptr},
               {"by", nullptr},  {"resumed_by", nullptr}, {"state", nullptr}, {"held_by", nullptr}};
  if (resumed.any()) json.update(pause_json(pause ? *pause : *retry_after));
  json["ended"] = Json::array();
  if (pause) json["ended"].push_back("pause");
  if (retry_after) json["ended"].push_back("retry_after");
  if (probes) json["ended"].push_back("breaker_wait");
  json["retry_after"] = retry_after ? text_or_null(retry_after->reason) : Json();
  return json;
}

}  // namespace

std::map<std::string, std::int64_t> unread_queues(MysqlStore& store) {
  constexpr std::size_t kMost = 1000;  // as many are looked at
  std::map<std::string, std::int64_t> unread;
  const auto queues = store.awaiting_queues(kMost);
  if (queues.empty()) return unread;
  for (const auto& [queue, record] : store.attachments(queues)) {
    const auto& reading = record.reading;
    if (reading && reading->consumers == 0 && reading->ready > 0) unread[queue] = reading->ready;
  }
  return unread;
}

std::vector<QueueGate> read_queues(MysqlStore& store) {
  std::map<std::string, QueueGate> all;
  for (QueueGate& gate : gates_in_force(store)) all[gate.queue] = std::move(gate);
  for (const QueueStat& stat : store.open_by_queue()) {
    QueueGate& gate = all[stat.queue];
    if (stat.state == State::parked) gate.parked = stat.tasks;
    if (stat.state != State::scheduled) continue;
    gate.waiting = stat.tasks;
    gate.next_at = stat.oldest_due_at;
  }
  all.erase("");  // of tasks without one
  for (const auto& [queue, record] : store.attachments({})) {
    if (record.state == AttachmentState::unattached) continue;
    const bool attached = record.state == AttachmentState::attached;
    if (attached || all.contains(queue)) all[queue].attached = attached;
  }
  for (const auto& [queue, ready] : unread_queues(store)) all[queue].unread = ready;
  std::vector<QueueGate> gates;
  for (auto& [queue, gate] : all) {
    gate.queue = queue;
    if (gate.state.empty()) gate.state = "flowing";
    gates.push_back(std::move(gate));
  }
  return gates;
}

std::optional<QueueGate> gate_of(MysqlStore& store, const std::string& queue) {
  return read_gates(store).of(queue);
}

std::vector<QueueGate> gates_in_force(MysqlStore& store) {
  const AllGates known = read_gates(store);
  std::set<std::string> queues;
  for (const auto& [queue, pause] : known.pauses) queues.insert(queue);
  for (const auto& [queue, state] : known.states) queues.insert(queue);
  std::vector<QueueGate> gates;
  for (const std::string& queue : queues) {
    if (auto gate = known.of(queue)) gates.push_back(*std::move(gate));
  }
  return gates;
}

std::optional<QueueGate> holding_gate(MysqlStore& store, const Task& task) {
  if (task.queue.empty() || task.state != State::scheduled) return std::nullopt;
  const AllGates known = read_gates(store);
  auto gate = known.of(task.queue);
  if (gate && task.next_at && !holds_back(*gate, *task.next_at, known.now)) return std::nullopt;
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

std::string wrong_queue_name(const std::string& queue) {
  if (queue.empty() || queue.size() > kNameBytes || queue.find('\0') != std::string::npos || !is_utf8(queue))
    return shown(queue) + " cannot be a queue: a name has 1 to 255 bytes of UTF-8";
  return {};
}

Json gate_json(const std::optional<QueueGate>& gate) {
  if (!gate) return {};
  return {{"queue", gate->queue},
          {"state", gate->state},
          {"since", time_or_null(gate->since)},
          {"until", time_or_null(gate->until)},
          {"reason", text_or_null(gate->reason)},
          {"by", text_or_null(gate->by)}};
}

Json overview_queues(std::vector<QueueGate> gates, std::size_t most) {
  const auto flows = [](const QueueGate& gate) { return gate.state == "flowing"; };
  std::ranges::sort(gates, {}, [&](const QueueGate& gate) { return std::pair(flows(gate), -gate.waiting); });
  const auto flowing = static_cast<std::size_t>(std::ranges::count_if(gates, flows));
  const std::size_t shown = std::max(std::min(gates.size(), most), gates.size() - flowing);
  Json json = {{"queues", Json::array()}, {"queues_left_out", gates.size() - shown}};
  for (std::size_t i = 0; i < shown; ++i) json["queues"].push_back(shown_queue_json(gates[i]));
  return json;
}

// In the order of their names, by bytes.
Response list_queues(Context& context, const Call& call) {
  auto gates = context.reads.read([](MysqlStore& store) { return read_queues(store); });
  const Page page = call.query.page();
  std::erase_if(gates, [&](const QueueGate& gate) { return gate.queue <= page.cursor; });
  return answer(200, page_of(
                         "queues", gates, page.limit, [](const QueueGate& gate) { return gate.queue; },
                         shown_queue_json));
}

Response show_queue(Context& context, const Call& call) {
  const std::string& queue = call.id;
  const RuleBookPtr rules = context.rules();
  const auto found = context.reads.read([&](MysqlStore& store) -> std::optional<QueueGate> {
    const auto gates = read_queues(store);
    if (const auto gate = std::ranges::find(gates, queue, &QueueGate::queue); gate != gates.end())
      return *gate;
    if (!rules->queues().contains(queue) && !has_seen(store, queue)) return std::nullopt;
    return QueueGate{queue, "flowing", {}, {}, "", "", 0, {}};
  });
  if (!found)
    throw Problem(404, "the queue " + shown(queue) +
                           " is not known: it has no task, is not attached, and the config does not name it: "
                           "GET /v1/queues");
  Json json = shown_queue_json(*found);
  json["config"] = queue_config_json(*rules, queue);
  return answer(200, json);
}

Response pause_queue(Context& context, const Call& call) {
  Fields fields(*call.json);
  const auto lasts = fields.duration("for", Ms{1});
  auto until = fields.time("until");
  const std::string reason = fields.text("reason", kErrorBytes).value_or("");
  if (lasts && until) fields.wrong("for", "cannot be combined with until");
  fields.check();
  refuse_name(context, call.id);
  const auto pause = [&](MysqlStore& store) {
    refuse_pattern(store, call.id);
    const EpochMs now = store.now();
    if (lasts) until = now + *lasts;
    if (until && *until <= now)
      throw Problem(400, format_utc(*until) + " UTC has passed: a pause ends in the future");
    return store.pause({call.id, until, call.who, reason});
  };
  return answer(200, pause_json(context.read_filtered({.queue = call.id}, pause, false, true)));
}

// Ends the pause, and a consumer's retry-after that holds back the queue; with `probe` an open breaker does
// not wait any longer for its next probe. If nothing is in force there is nothing to do, which is no error: a
// request may be repeated.
Response resume_queue(Context& context, const Call& call) {
  Fields fields(*call.json);
  const std::string reason = fields.text("reason", kErrorBytes).value_or("");
  const bool probe = fields.flag("probe").value_or(false);
  fields.check();
  refuse_name(context, call.id);
  const auto resume = [&](MysqlStore& store) {
    const Resumed ended = store.resume(call.id, call.who, reason);
    if (!ended.any()) refuse_pattern(store, call.id);
    auto gate = gate_of(store, call.id);
    const bool probes = probe && gate && gate->state == "breaker_open";
    if (probes) {
      probe_now(store, call, reason);
      gate = gate_of(store, call.id);
    }
    Json json = resumed_json(call.id, ended, probes);
    json["state"] = gate ? gate->state : "flowing";
    json["held_by"] = gate ? Json(gate_text(*gate)) : Json();
    return json;
  };
  return answer(200, context.read_filtered({.queue = call.id}, resume, false, true));
}

}  // namespace rung::api
