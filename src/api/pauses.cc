#include "src/api/pauses.h"

#include <nlohmann/json.hpp>

#include "src/api/fields.h"
#include "src/api/gates.h"
#include "src/core/base/rfc3339.h"
#include "src/core/base/utf8.h"

namespace rung::api {
namespace {

Json text_of(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }
Json time_of(const std::optional<EpochMs>& at) { return at ? Json(to_rfc3339(*at)) : Json(nullptr); }

// Why no queue of that name can be paused; "" if it can. It need not exist.
std::string refused_name(const std::string& queue, const TargetRules& rules) {
  if (queue.empty() || queue.size() > kNameBytes || queue.find('\0') != std::string::npos || !is_utf8(queue))
    return shown(queue) + " cannot be a queue: a name has 1 to 255 bytes of UTF-8";
  Target target;
  target.queue = queue;
  return own_target(target, rules);
}

}  // namespace

Result<Pause> pause_queue(Store& store, const PauseRequest& request, const TargetRules& rules) {
  if (std::string why = refused_name(request.queue, rules); !why.empty()) return permanent(std::move(why));
  std::optional<EpochMs> until = request.until;
  if (until || request.lasts) {
    const auto now = store.now();
    if (!now) return tl::unexpected(now.error());
    if (request.lasts) until = *now + *request.lasts;
    if (*until <= *now) return permanent(format_utc(*until) + " UTC has passed: a pause ends in the future");
  }
  return store.pause({request.queue, until, request.who, request.reason});
}

Result<ResumedQueue> resume_queue(Store& store, const std::string& queue, const std::string& who,
                                  const std::string& reason, const TargetRules& rules) {
  if (std::string why = refused_name(queue, rules); !why.empty()) return permanent(std::move(why));
  auto ended = store.resume(queue, who, reason);
  if (!ended) return tl::unexpected(ended.error());
  ResumedQueue out{queue, *std::move(ended), {}, "flowing"};
  const auto gate = gate_of(store, queue);
  if (!gate) return tl::unexpected(gate.error());
  if (*gate) {
    out.held_still = gate_text(**gate);
    out.state = (*gate)->state;
  }
  return out;
}

std::string pause_text(const Pause& pause) {
  std::string text = pause.until ? "until " + format_utc(*pause.until) + " UTC" : "until it is resumed";
  text += " by " + pause.who;
  if (!pause.reason.empty()) text += " (" + pause.reason + ")";
  return text;
}

Json to_json(const Pause& pause) {
  Json json = {{"queue", pause.queue},
               {"state", pause.over ? "flowing" : "paused"},
               {"since", to_rfc3339(pause.since)},
               {"until", time_of(pause.until)},
               {"reason", text_of(pause.reason)},
               {"by", text_of(pause.who)}};
  if (pause.over) json["resumed_by"] = text_of(pause.resumed_by);
  return json;
}

Json to_json(const ResumedQueue& resumed) {
  const auto& [pause, retry_after] = resumed.ended;
  Json json = {{"queue", resumed.queue}, {"since", nullptr}, {"until", nullptr},
               {"reason", nullptr},      {"by", nullptr},    {"resumed_by", nullptr}};
  if (resumed.ended.any()) json.update(to_json(pause ? *pause : *retry_after));
  json["state"] = resumed.state;
  json["held_still"] = text_of(resumed.held_still);
  json["ended"] = Json::array();
  if (pause) json["ended"].push_back("pause");
  if (retry_after) json["ended"].push_back("retry_after");
  return json;
}

}  // namespace rung::api
