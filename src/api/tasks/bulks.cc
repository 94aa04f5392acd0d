// /v1/bulks: one action on many tasks. Bulks are created here; every sidecar's runner
// (src/bridge/changes/bulk.h) picks them up from the table.
#include <set>

#include "src/api/queues/queues.h"
#include "src/api/tasks/tasks.h"
#include "src/core/base/utf8.h"

namespace rung::api {
namespace {

constexpr double kMostRate = 1'000'000;
constexpr double kRampRate = 100;          // of a ramp, where none is given
constexpr std::size_t kMostPutBack = 500;  // in a transaction
constexpr int kOutcomesCounted = 10'000;   // tasks: the last that it has processed

bool is_unsent(const SentTask& task) { return task.state == State::scheduled && !task.published_at; }

// --- as JSON

std::string percent_text(double percent) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), percent);
  return std::string(digits.data(), error == std::errc{} ? end : digits.data()) + "%";
}

// "canary", "watching" (the outcomes of the canary), "all"; null for a bulk without a canary.
Json stage_of(const Bulk& bulk) {
  if (bulk.care.canary == 0) return {};
  if (bulk.canary_done) return "all";
  return bulk.applied >= bulk.care.canary || bulk.done == bulk.total ? "watching" : "canary";
}

// With the names of the columns of retry_bulks, and its filter and its target as objects.
Json to_json(const Bulk& b) {
  const Json filter = Json::parse(b.filter_text, nullptr, false);
  Json elsewhere = nullptr;
  if (!b.elsewhere.queue.empty()) {
    elsewhere = {{"queue", b.elsewhere.queue}};
  } else if (b.elsewhere.is_set()) {
    elsewhere = {{"exchange", b.elsewhere.exchange}, {"routing_key", b.elsewhere.routing_key}};
  }
  return {{"id", std::to_string(b.id)},
          {"action", to_word(b.action)},
          {"state", to_word(b.state)},
          {"filter", filter.is_object() ? filter : Json::object()},
          {"reason", text_or_null(b.reason)},
          {"elsewhere", elsewhere},
          {"include_reported", b.even_reported},
          {"rate", b.rate},
          {"total", b.total},
          {"done", b.done},
          {"applied", b.applied},
          {"refused", b.refused},
          {"canary", b.care.canary},
          {"watch_ms", ms_or_null(b.care.watch)},
          {"ramp", b.care.ramp},
          {"stop_on_failures", b.care.stop_above ? Json(percent_text(*b.care.stop_above)) : Json()},
          {"stage", stage_of(b)},
          {"stopped_because", text_or_null(b.stopped_because)},
          {"changed_at", time_or_null(b.changed_at)},
          {"changed_by", text_or_null(b.changed_by)},
          {"changed_because", text_or_null(b.changed_because)},
          {"who", b.who},
          {"runner", text_or_null(b.runner)},
          {"created_at", to_rfc3339(b.created_at)},
          {"finished_at", time_or_null(b.finished_at)}};
}

// What became of the tasks that a bulk has sent: of the last kOutcomesCounted that it has processed. null for
// actions that send nothing. `held`: the gates that hold back those that are not sent yet; not their rates.
Json outcomes_of(MysqlStore& store, const Bulk& bulk) {
  if (bulk.action != BulkAction::redrive && bulk.action != BulkAction::fire) return {};
  const auto sent = store.sent_by_bulk(bulk.id, kOutcomesCounted);
  const auto records = attachments_of(store, sent);
  const SentCounts counts = count(sent);
  Json json = {{"sent", counts.sent},
               {"succeeded", counts.succeeded},
               {"failed", counts.failed},
               {"open", counts.open},
               {"not_yet_sent", counts.unsent},
               {"held", Json::array()},
               {"unread", text_or_null(unread_among(sent, records))}};
  if (counts.unsent == 0) return json;
  std::set<std::string_view> queues;
  for (const SentTask& task : sent) {
    if (is_unsent(task)) queues.insert(task.queue);
  }
  for (const QueueGate& gate : gates_in_force(store)) {
    if (gate.state != "rate_limited" && queues.contains(gate.queue)) json["held"].push_back(gate_json(gate));
  }
  return json;
}

// --- what a new bulk asks for

// "5%", "0.5 %": in percent, from 0 to below 100. nullopt: it is none.
std::optional<double> parse_percent(std::string_view text) {
  if (text.empty() || text.back() != '%') return std::nullopt;
  text.remove_suffix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  const auto value = number_from<double>(text);
  return value && *value >= 0 && *value < 100 ? value : std::nullopt;
}

// 0 or none: no rate limit.
std::optional<double> read_rate(Fields& fields) {
  const auto rate = fields.number("rate", 0, kMostRate);
  if (rate && *rate > 0 && *rate < kLeastBulkRate)
    fields.wrong("rate", "must be a number of tasks per second, at least 0.01; 0 means no limit");
  return rate;
}

void read_care(Fields& fields, Care& care) {
  care.canary = fields.integer("canary", 1, kMostCanary).value_or(0);
  care.watch = fields.duration("watch", Ms{1000});
  care.ramp = fields.flag("ramp").value_or(false);
  if (const auto text = fields.text("stop_on_failures", 20)) {
    care.stop_above = parse_percent(*text);
    if (!care.stop_above) fields.wrong("stop_on_failures", "must be a percentage like \"5%\"");
  }
}

// What is wrong with what it says of its care.
void refuse_care(Fields& fields, const NewBulk& bulk) {
  const Care& care = bulk.care;
  if (bulk.action != BulkAction::redrive && (care.any() || care.watch)) {
    fields.wrong(care.canary > 0 ? "canary"
                 : care.ramp     ? "ramp"
                 : care.watch    ? "watch"
                                 : "stop_on_failures",
                 "only valid with the action redrive");
  } else if (care.watch && care.canary == 0) {
    fields.wrong("watch", "needs a canary: it says how long to wait for the canary's outcomes");
  } else if (care.ramp && bulk.rate < 1) {
    fields.wrong("ramp", "needs a rate of at least 1 per second: the ramp begins at 1/s and ends there");
  } else if (care.stop_above && bulk.rate <= 0) {
    fields.wrong("stop_on_failures",
                 "needs a rate: without one, all are sent before the first failure can come back");
  }
}

// NewBulk::filter_text: its filter and limit as the JSON object that the API takes.
std::string filter_text(const NewBulk& bulk) {
  Json json = filter_json(bulk.filter);
  if (bulk.limit > 0) json["limit"] = std::to_string(bulk.limit);
  return dump(json);
}

struct Wish {
  NewBulk bulk;
  bool dry_run = false;
  std::optional<CountBy> by;  // of a dry run
};

Wish read_wish(const Json& json, const std::string& who, const TargetRules& targets) {
  Wish wish;
  Fields fields(json);
  FieldErrors& errors = fields.errors();
  const auto action = fields.text("action", 20);
  if (const auto known = action ? from_word<BulkAction>(*action) : std::nullopt) {
    wish.bulk.action = *known;
  } else {
    fields.wrong("action", "must be \"cancel\", \"discard\", \"fire\", \"redrive\", \"succeed\" or \"fail\"");
  }
  if (const Json* filter = fields.get("filter")) {
    wish.bulk.filter = read_filter(*filter, errors);
  } else {
    fields.wrong("filter", "say which tasks: {\"queue\": \"orders\"}");
  }
  const auto rate = read_rate(fields);
  wish.dry_run = fields.flag("dry_run").value_or(false);
  wish.bulk.reason = fields.text("reason", kErrorBytes).value_or("");
  wish.bulk.limit = fields.integer("limit", 1, kMostCounted).value_or(0);
  wish.bulk.paused = fields.flag("paused").value_or(false);
  if (const auto by = fields.text("by", 300)) {
    wish.by = CountBy::parse(*by);
    if (!wish.by) fields.wrong("by", "must be " + std::string(kCountByWords));
    if (wish.by && !wish.dry_run) fields.wrong("by", "only valid with \"dry_run\": true");
  }
  if (const Json* elsewhere = fields.get("elsewhere")) {
    if (!elsewhere->is_object()) {
      fields.wrong("elsewhere", "must be {\"queue\": ...}, or {\"exchange\": ..., \"routing_key\": ...}");
    } else {
      Fields inner(*elsewhere, "elsewhere.", errors);
      wish.bulk.elsewhere = inner.target(targets);
      inner.finish();
    }
    if (wish.bulk.action != BulkAction::redrive)
      fields.wrong("elsewhere", "only valid with the action redrive");
  }
  read_care(fields, wish.bulk.care);
  wish.bulk.rate = rate.value_or(wish.bulk.care.ramp ? kRampRate : 0);
  wish.bulk.even_reported = fields.flag("include_reported").value_or(false);
  if (wish.bulk.even_reported && wish.bulk.action != BulkAction::redrive &&
      wish.bulk.action != BulkAction::fail)
    fields.wrong("include_reported", "only valid with the actions redrive and fail");
  if (errors.empty()) {
    if (std::string why = refused_states(wish.bulk); !why.empty())
      fields.wrong("filter.state", std::move(why));
    refuse_care(fields, wish.bulk);
  }
  fields.check();
  wish.bulk.filter_text = filter_text(wish.bulk);
  wish.bulk.who = who;
  return wish;
}

bool gives_up_by_age(const RuleBook& rules) {
  const auto by_age = [](const QueueRules& queue) { return queue.give_up.after.has_value(); };
  return by_age(rules.defaults()) ||
         std::ranges::any_of(rules.queues(), [&](const auto& entry) { return by_age(entry.second); }) ||
         std::ranges::any_of(rules.patterns(), [&](const auto& entry) { return by_age(entry.rules); });
}

// Tasks of a redrive that their queue's `give_up: { after }` has given up, or would: they may be too old to
// be wanted.
Json expired_json(MysqlStore& store, const NewBulk& bulk, const RuleBook& rules) {
  Json json = Json::array();
  if (!gives_up_by_age(rules)) return json;
  const EpochMs now = store.now();
  const std::int64_t most = bulk.limit > 0 ? bulk.limit : kMostCounted;
  const Filter all = of_bulk(bulk);
  for (const TaskCounts::Group& group : store.count_by(all, {.field = "queue"}, most).groups) {
    const auto& after = rules.queue(group.value).give_up.after;
    if (!after) continue;
    Filter old = all;
    old.queue = group.value;
    old.first_failed_before = std::min(old.first_failed_before.value_or(now - *after), now - *after);
    const std::int64_t tasks = store.count(old, most);
    if (tasks > 0) json.push_back({{"queue", group.value}, {"after_ms", after->count()}, {"tasks", tasks}});
  }
  return json;
}

// How many tasks a redrive leaves out because they have no body (body_stored()).
std::int64_t without_body(MysqlStore& store, const NewBulk& redrive) {
  Filter bodiless = of_bulk(redrive);
  bodiless.body_stored = false;
  return store.count(bodiless, kMostCounted);
}

// --- one bulk

[[noreturn]] void no_such_bulk(const Call& call) {
  throw Problem(404, "there is no bulk " + shown(call.id) + "; GET /v1/bulks lists them");
}

Bulk find_bulk(MysqlStore& store, const Call& call) {
  const auto id = id_of_cursor(call.id);
  auto bulk = id ? store.bulk(*id) : std::nullopt;
  if (!bulk) no_such_bulk(call);
  return *std::move(bulk);
}

// What a bulk does to each of its tasks: it takes the role that this takes for one.
Action change_of(BulkAction action) {
  if (is_finish(action)) return Action::finish;
  return std::ranges::find(kRights, to_word(action), &Right::word)->action;
}

// Throws a 403 if the bulk may concern other queues than the person's: each bulk names one queue then.
void refuse_bulk_of(const Person& person, BulkAction action, std::string_view queue,
                    const Target& elsewhere) {
  refuse_role(person, change_of(action));
  if (!holds(person.queues, queue)) {
    Problem outside = outside_queues(person, queue);
    if (queue.empty()) outside.detail += ": the filter of a bulk must name one of them";
    throw outside;
  }
  if (elsewhere.is_set()) refuse_target(person, elsewhere);
}

// Parks again what a redrive has made due and is not sent yet.
void put_back(MysqlStore& store, const Bulk& bulk, const BulkControl& control, const RuleBookPtr& rules) {
  if (bulk.action != BulkAction::redrive) return;  // what was fired had another due time
  std::vector<Event> events;
  for (const SentTask& task : store.sent_by_bulk(bulk.id, kOutcomesCounted)) {
    if (is_unsent(task))
      events.push_back({task.id, event::Park{}, ByHand{control.who, {}, control.reason, bulk.id}});
  }
  for (std::size_t at = 0; at < events.size(); at += kMostPutBack) {
    const auto some = std::span(events).subspan(at, std::min(kMostPutBack, events.size() - at));
    store.apply(some, Fence{}, decider(rules));
  }
}

}  // namespace

// What a bulk is for never changes.
void refuse_bulk(Context& context, const Call& call) {
  const Bulk bulk = context.reads.read([&](MysqlStore& store) { return find_bulk(store, call); });
  refuse_bulk_of(call.person, bulk.action, queue_of(bulk), bulk.elsewhere);
}

Json dry_run(MysqlStore& store, const NewBulk& bulk, const std::optional<CountBy>& by,
             const RuleBook& rules) {
  Json json = {{"dry_run", true}};
  json.update(count_tasks(store, of_bulk(bulk), by, bulk.limit > 0 ? bulk.limit : kMostCounted));
  if (bulk.limit > 0) json["or_more"] = false;  // it takes no more, even if more tasks match
  if (bulk.action != BulkAction::redrive) return json;
  json["without_body"] = without_body(store, bulk);
  json["expired"] = expired_json(store, bulk, rules);
  return json;
}

Response create_bulk(Context& context, const Call& call) {
  const Wish wish = read_wish(*call.json, call.who, context.rules()->targets());
  const NewBulk& bulk = wish.bulk;
  refuse_bulk_of(call.person, bulk.action, bulk.filter.queue, bulk.elsewhere);
  if (wish.dry_run) {
    const auto count = [&](MysqlStore& store) { return dry_run(store, bulk, wish.by, *context.rules()); };
    return answer(200, context.read_filtered(bulk.filter, count, wish.by.has_value()));
  }
  const auto create = [&](MysqlStore& store) { return store.create_bulk(bulk); };
  const Bulk made = context.read_filtered(bulk.filter, create, false, true);
  Json json = to_json(made);
  if (bulk.action == BulkAction::redrive) {
    const auto left_out =
        context.reads.result_of([&](MysqlStore& store) { return without_body(store, bulk); });
    if (left_out) json["without_body"] = *left_out;
  }
  return answer(202, json, {{"Location", "/v1/bulks/" + std::to_string(made.id)}});
}

Response list_bulks(Context& context, const Call& call) {
  const Page page = call.query.page();
  const auto bulks = context.reads.read(
      [&](MysqlStore& store) { return store.bulks(page.limit + 1, id_of_cursor(page.cursor)); });
  return answer(200, page_of(
                         "bulks", bulks, page.limit, [](const Bulk& bulk) { return std::to_string(bulk.id); },
                         [](const Bulk& bulk) { return to_json(bulk); }));
}

Response show_bulk(Context& context, const Call& call) {
  return answer(200, context.reads.read([&](MysqlStore& store) {
    const Bulk bulk = find_bulk(store, call);
    Json json = to_json(bulk);
    json["outcomes"] = outcomes_of(store, bulk);
    return json;
  }));
}

// /pause, /resume, /abort. A bulk that ended in another state keeps it, and the response says so.
Response steer_bulk(Context& context, const Call& call) {
  const std::string_view path = call.request.path;
  const BulkState state = path.ends_with("/pause")   ? BulkState::paused
                          : path.ends_with("/abort") ? BulkState::aborted
                                                     : BulkState::running;
  const Bulk before = context.reads.read([&](MysqlStore& store) { return find_bulk(store, call); });
  Fields fields(*call.json);
  std::optional<double> rate;
  if (state == BulkState::running) rate = read_rate(fields);
  if (rate == 0 && (before.care.ramp || before.care.stop_above))
    fields.wrong("rate", "0 means no limit, and this redrive watches its failures: at least 0.01");
  const bool back = state == BulkState::aborted && fields.flag("put_back").value_or(false);
  const std::string reason = fields.text("reason", kErrorBytes).value_or("");
  fields.check();
  const BulkControl control{before.id, state, rate, call.who, reason, back};
  const auto after = context.reads.read([&](MysqlStore& store) {
    auto bulk = store.set_bulk(control);
    if (bulk && back) put_back(store, *bulk, control, context.rules());
    return bulk;
  });
  if (!after) no_such_bulk(call);
  const std::string_view is = to_word(after->state);
  if (after->state != state && !back)
    throw Problem(409, "the bulk is " + std::string(is) + " and can no longer change", {{"state", is}});
  return answer(200, to_json(*after));
}

}  // namespace rung::api
