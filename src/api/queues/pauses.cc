#include "src/api/queues/pauses.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/api/json/fields.h"
#include "src/api/queues/gates.h"
#include "src/core/base/time.h"
#include "src/core/base/utf8.h"

namespace rung::api {
namespace {

// Why no queue of that name can be paused; "" if it can. It need not exist.
std::string refused_name(const std::string& queue, const TargetRules& rules) {
  if (std::string why = wrong_queue_name(queue); !why.empty()) return why;
  Target target;
  target.queue = queue;
  return own_target(target, rules);
}

// The next probe of the queue's breaker is due now. Sidecars read that within a second.
Result<GateState> probe_now(MysqlStore& store, const ResumeRequest& request) {
  return store.change_gate(request.queue, [&](GateState& state, EpochMs now) -> std::vector<SystemEvent> {
    Breaker& breaker = state.breaker;
    if (breaker.state != Breaker::State::open || !breaker.until || *breaker.until <= now) return {};
    breaker.until = now;
    std::string detail = "by " + request.who + (request.reason.empty() ? "" : ": " + request.reason);
    return {{"breaker_probed", request.queue, std::move(detail)}};
  });
}

// The store refuses to count the tasks of a pattern.
Result<std::int64_t> no_pattern(MysqlStore& store, const std::string& queue) {
  return store.count({.queue = queue}, 1);
}

}  // namespace

std::string wrong_queue_name(const std::string& queue) {
  if (queue.empty() || queue.size() > kNameBytes || queue.find('\0') != std::string::npos || !is_utf8(queue))
    return shown(queue) + " cannot be a queue: a name has 1 to 255 bytes of UTF-8";
  return {};
}

Result<Pause> pause_queue(MysqlStore& store, const PauseRequest& request, const TargetRules& rules) {
  if (std::string why = refused_name(request.queue, rules); !why.empty()) return permanent(std::move(why));
  if (auto good = no_pattern(store, request.queue); !good) return tl::unexpected(good.error());
  std::optional<EpochMs> until = request.until;
  if (until || request.lasts) {
    const auto now = store.now();
    if (!now) return tl::unexpected(now.error());
    if (request.lasts) until = *now + *request.lasts;
    if (*until <= *now) return permanent(format_utc(*until) + " UTC has passed: a pause ends in the future");
  }
  return store.pause({request.queue, until, request.who, request.reason});
}

Result<ResumedQueue> resume_queue(MysqlStore& store, const ResumeRequest& request, const TargetRules& rules) {
  if (std::string why = refused_name(request.queue, rules); !why.empty()) return permanent(std::move(why));
  auto ended = store.resume(request.queue, request.who, request.reason);
  if (!ended) return tl::unexpected(ended.error());
  if (auto good = no_pattern(store, request.queue); !ended->any() && !good)
    return tl::unexpected(good.error());
  ResumedQueue out{request.queue, *std::move(ended), false, {}, "flowing"};
  auto gate = gate_of(store, request.queue);
  if (request.probe && gate && *gate && (*gate)->state == "breaker_open") {
    const auto state = probe_now(store, request);
    if (!state) return tl::unexpected(state.error());
    out.probes = true;
    gate = gate_of(store, request.queue);
  }
  if (!gate) return tl::unexpected(gate.error());
  if (*gate) {
    out.held_still = gate_text(**gate);
    out.state = (*gate)->state;
  }
  return out;
}

Json to_json(const Pause& pause) {
  Json json = {{"queue", pause.queue},
               {"state", pause.over ? "flowing" : "paused"},
               {"since", to_rfc3339(pause.since)},
               {"until", time_or_null(pause.until)},
               {"reason", text_or_null(pause.reason)},
               {"by", text_or_null(pause.who)}};
  if (pause.over) json["resumed_by"] = text_or_null(pause.resumed_by);
  return json;
}

Json to_json(const ResumedQueue& resumed) {
  const auto& [pause, retry_after] = resumed.ended;
  Json json = {{"queue", resumed.queue}, {"since", nullptr}, {"until", nullptr},
               {"reason", nullptr},      {"by", nullptr},    {"resumed_by", nullptr}};
  if (resumed.ended.any()) json.update(to_json(pause ? *pause : *retry_after));
  json["state"] = resumed.state;
  json["held_still"] = text_or_null(resumed.held_still);
  json["ended"] = Json::array();
  if (pause) json["ended"].push_back("pause");
  if (retry_after) json["ended"].push_back("retry_after");
  if (resumed.probes) json["ended"].push_back("breaker_wait");
  json["retry_after"] = retry_after ? text_or_null(retry_after->reason) : Json();
  return json;
}

}  // namespace rung::api
