// /v1/queues: what holds queues back, pause and resume. Pauses are kept in the database: every sidecar reads
// them there (src/bridge/flight/gates.h). /v1/config; /v1/simulate, which changes nothing.
#include "src/api/queues/queues.h"

#include <algorithm>
#include <set>

#include "levels/duration.h"
#include "src/api/base/context.h"
#include "src/core/base/utf8.h"
#include "src/core/machine/machine.h"

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

Json ladder_json(const levels::Ladder& ladder) {
  Json delays = Json::array();
  for (int level = 1; level <= ladder.levels(); ++level) delays.push_back(ladder.delay(level).count());
  return {{"delays_ms", std::move(delays)}, {"jitter", ladder.jitter()}};
}

Json gates_json(const GateRules& gate) {
  Json waits = Json::array();
  if (gate.breaker) {
    for (const Ms wait : gate.breaker->wait) waits.push_back(wait.count());
  }
  const bool limits = gate.limits();
  return {{"limits", limits ? Json(describe_limits(gate)) : Json()},
          {"window", gate.window == nullptr ? Json() : Json(gate.window->describe())},
          {"breaker", gate.breaker ? Json{{"open_after", gate.breaker->open_after},
                                          {"of_last", gate.breaker->of_last},
                                          {"wait_ms", std::move(waits)}}
                                   : Json()}};
}

Json queue_json(const QueueRules& rules) {
  const bool success = rules.silence.means == Silence::Means::success;
  return {{"ladder", rules.ladder},
          {"rules", text_or_null(rules.rules)},
          {"silence", {{success ? "presumed_after_ms" : "reported_within_ms", rules.silence.after.count()}}},
          {"late_by_ms", ms_or_null(rules.late_by)},
          {"give_up",
           {{"attempts", rules.give_up.attempts == 0 ? Json() : Json(rules.give_up.attempts)},
            {"after_ms", ms_or_null(rules.give_up.after)}}},
          {"gates", gates_json(rules.gate)},
          {"catch_up", rules.catch_up}};
}

Json named(const std::string& name, Json json) {
  json["name"] = name;
  return json;
}

Json rules_json(const FailureRules& list) {
  Json out = Json::array();
  for (const FailureRule& rule : list.rules())
    out.push_back({{"name", rule.name}, {"when", describe(rule.when)}, {"then", describe(rule.then)}});
  return out;
}

using levels::format_duration;

constexpr EpochMs kFailedAt{1'700'000'000'000};  // any time: only differences are shown
constexpr int kExplainedBy = 1;                  // the node

RuleHeaders headers_of(Fields& fields) {
  RuleHeaders headers;
  const Json* json = fields.get("headers");
  if (json == nullptr) return headers;
  bool good = json->is_object() && json->size() <= 100;
  for (auto it = json->begin(); good && it != json->end(); ++it) {
    good = it->is_string();
    if (good) headers.emplace(it.key(), it->get<std::string>());
  }
  if (!good) fields.wrong("headers", "must be an object of at most 100 strings: {\"tenant\": \"acme\"}");
  return headers;
}

// A task whose attempt has just failed, as the state machine has it before it decides; `attempt` 0: its first
// delivery. `reason`: one of failure_reasons(), "" = none.
Task failed_task(const Json& json, const RuleBook& rules, std::string& reason) {
  Fields fields(json);
  Task task;
  const auto queue = fields.name("queue");
  if (queue ? queue->empty() : !fields.has("queue"))
    fields.wrong("queue", "is required: the queue in which the message failed");
  task.id = {1};
  task.node = kExplainedBy;
  task.queue = queue.value_or("");
  task.last_error = fields.text("error", kErrorBytes).value_or("");
  task.error_type = fields.name("error_type").value_or("");
  task.tag = fields.name("tag").value_or("");
  reason = fields.name("reason").value_or("");
  const auto& reasons = failure_reasons();
  if (!reason.empty() && std::ranges::find(reasons, reason) == reasons.end())
    fields.wrong("reason", "must be rejected, expired, maxlen, delivery_limit, returned or silent");
  task.rule_headers = headers_of(fields);
  task.attempt = static_cast<int>(fields.integer("attempt", 0, 1'000'000).value_or(0));
  task.first_failed_at = kFailedAt - fields.duration("age", Ms{0}).value_or(Ms{0});
  fields.check();
  task.ladder = rules.queue(task.queue).ladder;
  task.levels = rules.ladder(task.ladder)->levels();
  task.level = std::min(task.attempt, task.levels);
  if (reason == "returned") task.error_type = "returned";
  if (reason == "silent") task.error_type = "timed_out";
  const bool by_broker = reason == "expired" || reason == "maxlen" || reason == "delivery_limit";
  if (by_broker) task.last_error = "dead-lettered: " + reason + " (queue " + task.queue + ")";
  if (task.last_error.empty()) task.last_error = "failed (no retry-error was given)";
  return task;
}

// What the state machine makes of it.
Task decided(Task task, const std::string& reason, const RuleBook& rules) {
  if (task.attempt == 0) {
    begin(task, {}, rules, kFailedAt, 0.0);
    return task;
  }
  Circumstances at;
  at.now = kFailedAt;
  at.node = kExplainedBy;
  task.state = State::publishing;
  if (reason == "returned")
    return decide(task, event::Returned{task.attempt, kFailedAt, task.last_error}, rules, at).task;
  task.state = State::awaiting;
  task.next_at = kFailedAt;
  if (reason == "silent") return decide(task, event::SilenceOver{}, rules, at).task;
  return decide(task, event::Failed{task.attempt, task.last_error, task.error_type, {}}, rules, at).task;
}

// "retry in 5s, level 1 of 9 of ladder default (rule payments[2])". `match`: the rule that matches, if one
// does.
std::string result_text(const Task& before, const Task& after, const FailureRule* match) {
  const std::string by = after.rule.empty() ? "" : " (rule " + after.rule + ")";
  if (after.state == State::succeeded)
    return "succeeded: for this queue, silence after a retry means success";
  if (after.state != State::scheduled) {
    const bool retries = match == nullptr || match->then.kind == RuleAction::Kind::retry;
    const bool spent = retries && after.rule != "give_up";
    return std::string(to_word(after.state)) + (spent ? ": the ladder has no more levels" : by);
  }
  std::string text = "retry in " + format_duration(*after.next_at - kFailedAt);
  if (after.level == before.level) {
    text += ", still level " + std::to_string(after.level) + "; the attempt is not counted";
  } else {
    text += ", level " + std::to_string(after.level) + " of " + std::to_string(after.levels) + " of ladder " +
            after.ladder;
  }
  if (after.queue != before.queue) text += ", in queue " + after.queue;
  return text + by;
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
    text = queue + ": breaker half-open, only probes go out";
  } else {
    std::string state = gate.state;
    std::ranges::replace(state, '_', ' ');
    text = queue + ": " + state + until;
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
    auto gate = read_gates(store).of(call.id);
    const bool probes = probe && gate && gate->state == "breaker_open";
    if (probes) {
      probe_now(store, call, reason);
      gate = read_gates(store).of(call.id);
    }
    Json json = resumed_json(call.id, ended, probes);
    json["state"] = gate ? gate->state : "flowing";
    json["held_by"] = gate ? Json(gate_text(*gate)) : Json();
    return json;
  };
  return answer(200, context.read_filtered({.queue = call.id}, resume, false, true));
}

Json config_json(const RuleBook& rules) {
  Json ladders = Json::array(), queues = Json::array(), lists = Json::array(), tags = Json::array(),
       error_queues = Json::array();
  for (const auto& [name, ladder] : rules.ladders()) ladders.push_back(named(name, ladder_json(ladder)));
  for (const auto& [name, queue] : rules.queues()) queues.push_back(named(name, queue_json(queue)));
  for (const auto& entry : rules.patterns())
    queues.push_back(named(entry.pattern.text(), queue_json(entry.rules)));
  for (const auto& [name, list] : rules.rule_lists())
    lists.push_back({{"name", name}, {"rules", rules_json(*list)}});
  for (const auto& [name, tag] : rules.tags())
    tags.push_back(
        {{"name", name}, {"queue", text_or_null(tag.target.queue)}, {"ladder", text_or_null(tag.ladder)}});
  for (const ErrorQueue& entry : rules.error_queues().all()) error_queues.push_back(entry.from);
  return {{"ladders", std::move(ladders)},
          {"queues", std::move(queues)},
          {"defaults", queue_json(rules.defaults())},
          {"rules", std::move(lists)},
          {"tags", std::move(tags)},
          {"error_queues", std::move(error_queues)}};
}

Json queue_config_json(const RuleBook& rules, const std::string& queue) {
  const QueueRules& own = rules.queue(queue);
  const RuleBook::PatternRules* pattern = rules.pattern_of(queue);
  const FailureRules* list = rules.failure_rules(queue);
  Json json = queue_json(own);
  json.update(ladder_json(*rules.ladder(own.ladder)));
  json["entry"] = pattern != nullptr               ? Json(pattern->pattern.text())
                  : rules.queues().contains(queue) ? Json(queue)
                                                   : Json();
  json["failure_rules"] = list != nullptr ? rules_json(*list) : Json::array();
  return json;
}

// The rules of this instance: another one may have others for a while (GET /v1/nodes compares them).
Response show_config(Context& context, const Call&) {
  Json json = config_json(*context.rules());
  json["index_headers"] = context.index_headers;
  const auto vitals = context.vitals();
  json["fingerprint"] = vitals ? Json(vitals->config) : Json();
  json["version"] = context.version;
  return answer(200, json);
}

Json explain_failure(const Json& failure, const RuleBook& rules, const CauseRules* causes) {
  std::string reason;
  const Task before = failed_task(failure, rules, reason), after = decided(before, reason, rules);
  const levels::Ladder* const ladder = rules.ladder(after.ladder);
  Json tried = Json::array();  // the rules in their order, up to the one that matches
  const FailureRule* match = nullptr;
  if (const FailureRules* list = rules.failure_rules(before.queue)) {
    for (auto rule = list->rules().begin(); rule != list->rules().end() && match == nullptr; ++rule) {
      const std::string why = why_not(*rule, failure_case(before, kFailedAt));
      if (why.empty()) match = &*rule;
      tried.push_back({{"rule", rule->name},
                       {"matches", why.empty()},
                       {"why_not", text_or_null(why)},
                       {"action", describe(rule->then)}});
    }
  }
  const bool waits = after.state == State::scheduled;
  return {{"rules", std::move(tried)},
          {"rule", text_or_null(after.rule)},
          {"action", match == nullptr ? Json() : Json(describe(match->then))},
          {"state", to_word(after.state)},
          {"level", after.level},
          {"levels", after.levels},
          {"ladder", after.ladder},
          {"delays_ms", ladder != nullptr ? ladder_json(*ladder)["delays_ms"] : Json::array()},
          {"queue", after.queue},
          {"error_type", text_or_null(after.error_type)},
          {"cause", text_or_null(cause_text(before.last_error, causes))},
          {"delay_ms", waits ? Json((*after.next_at - kFailedAt).count()) : Json()},  // without jitter
          {"counts", after.level != before.level},
          {"result", result_text(before, after, match)}};
}

Response simulate_failure(Context& context, const Call& call) {
  const RuleBookPtr rules = context.rules();
  Json json = explain_failure(*call.json, *rules, context.cause_rules.get());
  const std::string target = json["queue"];
  json["gate"] =
      gate_json(context.reads.read([&](MysqlStore& store) { return read_gates(store).of(target); }));
  json["limits"] = text_or_null(describe_limits(rules->queue(target).gate));
  return answer(200, json);
}

}  // namespace rung::api
