#include "src/store/gates.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/store/store.h"
#include "src/store/tasks.h"

namespace rung {
namespace {

using Json = nlohmann::ordered_json;

std::string json_of(const Pause& pause) {
  const Json json = {{"queue", pause.queue},
                     {"since", format_utc(pause.since)},
                     {"until", pause.until ? Json(format_utc(*pause.until)) : Json()},
                     {"reason", pause.reason}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

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

GateState Store::change_gate(const std::string& queue, const GateChange& change) {
  return change_gates({{queue}, change}).at(0);
}

AuditRow audit_of(const std::optional<Pause>& before, const Pause& after, const std::string& reason,
                  EpochMs now) {
  return {0,
          now,
          after.over ? after.resumed_by : after.who,
          after.over ? "resume" : "pause",
          TaskId{0},
          before && !before->over ? json_of(*before) : "{}",
          json_of(after),
          reason};
}

SystemEvent event_of(const Pause& after, const std::string& reason) {
  std::string detail;
  if (after.over) {
    detail = "by " + after.resumed_by;
  } else {
    detail =
        "until " + (after.until ? format_utc(*after.until) + " UTC" : "it is resumed") + ", by " + after.who;
  }
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
                   std::string(gate->who),
                   0,
                   {}};
}

}  // namespace rung
