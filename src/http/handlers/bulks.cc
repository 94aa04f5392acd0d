// /v1/bulks: one action on many tasks. Bulks are created here; every sidecar's runner
// (src/bridge/changes/bulk.h) picks them up from the table.
#include "src/api/tasks/bulks.h"

#include <nlohmann/json.hpp>

#include "src/api/json/fields.h"
#include "src/api/tasks/filter.h"
#include "src/api/tasks/pages.h"
#include "src/api/tasks/views.h"
#include "src/http/access/access.h"
#include "src/http/handlers/context.h"

namespace rung::http {
namespace {

constexpr const char* kBulkPath = "/v1/bulks";
constexpr double kMostRate = 1'000'000;

// 0 or none: no rate limit.
std::optional<double> read_rate(api::Fields& fields) {
  const auto rate = fields.number("rate", 0, kMostRate);
  if (rate && *rate > 0 && *rate < kLeastBulkRate)
    fields.wrong("rate", "must be a number of tasks per second, at least 0.01; 0 means no limit");
  return rate;
}

void read_care(api::Fields& fields, Care& care) {
  care.canary = fields.integer("canary", 1, kMostCanary).value_or(0);
  care.watch = fields.duration("watch", Ms{1000});
  care.ramp = fields.flag("ramp").value_or(false);
  if (const auto text = fields.text("stop_on_failures", 20)) {
    care.stop_above = api::parse_percent(*text);
    if (!care.stop_above) fields.wrong("stop_on_failures", std::string(api::kPercentExample));
  }
}

struct Wish {
  NewBulk bulk;
  bool dry_run = false;
  std::optional<CountBy> by;  // of a dry run
};

Wish read_wish(const Json& json, const std::string& who, const TargetRules& targets, FieldErrors& errors) {
  Wish wish;
  api::Fields fields(json, "", errors);
  const auto action = fields.text("action", 20);
  if (const auto known = action ? bulk_action_from(*action) : std::nullopt) {
    wish.bulk.action = *known;
  } else {
    fields.wrong("action", "must be \"cancel\", \"discard\", \"fire\", \"redrive\", \"succeed\" or \"fail\"");
  }
  if (const Json* filter = fields.get("filter")) {
    wish.bulk.filter = api::read_filter(*filter, errors);
  } else {
    fields.wrong("filter", "say which tasks: {\"queue\": \"orders\"}");
  }
  wish.bulk.rate = read_rate(fields).value_or(0);
  wish.dry_run = fields.flag("dry_run").value_or(false);
  wish.bulk.reason = fields.text("reason", kErrorBytes).value_or("");
  wish.bulk.limit = fields.integer("limit", 1, api::kMostCounted).value_or(0);
  wish.bulk.paused = fields.flag("paused").value_or(false);
  if (const auto by = fields.text("by", kCountByBytes)) {
    wish.by = CountBy::parse(*by);
    if (!wish.by) fields.wrong("by", "must be " + std::string(kCountByWords));
    if (wish.by && !wish.dry_run) fields.wrong("by", "only valid with \"dry_run\": true");
  }
  if (const Json* elsewhere = fields.get("elsewhere")) {
    if (!elsewhere->is_object()) {
      fields.wrong("elsewhere", "must be {\"queue\": ...}, or {\"exchange\": ..., \"routing_key\": ...}");
    } else {
      api::Fields inner(*elsewhere, "elsewhere.", errors);
      wish.bulk.elsewhere = inner.target(targets);
      inner.finish();
    }
    if (wish.bulk.action != BulkAction::redrive)
      fields.wrong("elsewhere", "only valid with the action redrive");
  }
  read_care(fields, wish.bulk.care);
  wish.bulk.even_reported = fields.flag("even_reported").value_or(false);
  if (wish.bulk.even_reported && wish.bulk.action != BulkAction::redrive &&
      wish.bulk.action != BulkAction::fail)
    fields.wrong("even_reported", "only valid with the actions redrive and fail");
  if (errors.empty()) {
    if (std::string why = refused_states(wish.bulk); !why.empty())
      fields.wrong("filter.state", std::move(why));
    if (auto wrong = api::wrong_care(wish.bulk)) fields.wrong(wrong->field, std::move(wrong->detail));
  }
  fields.finish();
  wish.bulk.filter_text = api::filter_text(wish.bulk);
  wish.bulk.who = who;
  return wish;
}

Response no_such_bulk(const Call& call) {
  return problem(404, "there is no bulk " + api::shown(call.id) + "; GET /v1/bulks lists them",
                 call.request.path);
}

// What a bulk does to each of its tasks: it takes the role that this takes for one.
Action change_of(BulkAction action) {
  switch (action) {
    case BulkAction::cancel:
      return Action::cancel;
    case BulkAction::fire:
      return Action::fire;
    case BulkAction::redrive:
      return Action::redrive;
    case BulkAction::discard:
      return Action::discard;
    case BulkAction::succeed:
    case BulkAction::fail:
      break;
  }
  return Action::finish;
}

// The response, if the bulk may concern other queues than the person's: each bulk names one queue then.
std::optional<Response> refuse_bulk_of(const Call& call, BulkAction action, std::string_view queue,
                                       const Target& elsewhere) {
  const std::string& path = call.request.path;
  if (auto no = refuse_role(call.person, change_of(action), path)) return no;
  if (!holds(call.person.queues, queue)) {
    const std::string detail = outside_queues(call.person, queue) +
                               (queue.empty() ? ": the filter of a bulk must name one of them" : "");
    return problem(403, detail, path, outside_members(queue));
  }
  return elsewhere.is_set() ? refuse_target(call.person, elsewhere, path) : std::nullopt;
}

// `state` is the state wanted. A bulk that ended in another state keeps it, and the response says so.
Response set_state(Context& context, const Call& call, BulkState state) {
  const auto id = api::id_of_cursor(call.id);
  if (!id) return no_such_bulk(call);
  FieldErrors errors;
  api::Fields fields(*call.json, "", errors);
  std::optional<double> rate;
  if (state == BulkState::running) rate = read_rate(fields);
  const bool back = state == BulkState::aborted && fields.flag("put_back").value_or(false);
  const std::string reason = fields.text("reason", kErrorBytes).value_or("");
  fields.finish();
  if (!errors.empty()) return problem(errors, call.request.path);
  if (rate == 0) {
    auto before = context.reads.run([&](MysqlStore& store) { return store.bulk(*id); });
    if (!before) return problem(before.error(), call.request.path);
    if (!*before) return no_such_bulk(call);
    const Care& care = (*before)->care;
    if (care.ramp || care.stop_above) {
      fields.wrong("rate", "0 means no limit, and this redrive watches its failures: at least 0.01");
      return problem(errors, call.request.path);
    }
  }
  const BulkControl control{*id, state, rate, call.who, reason, back};
  auto bulk = context.reads.run(
      [&](MysqlStore& store) { return api::control_bulk(store, control, context.rules()); });
  if (!bulk) return problem(bulk.error(), call.request.path);
  if (!*bulk) return no_such_bulk(call);
  if ((*bulk)->state != state && !back) {
    return problem(409, "the bulk is " + std::string(to_word((*bulk)->state)) + " and can no longer change",
                   call.request.path, {{"state", to_word((*bulk)->state)}});
  }
  return answer(200, api::to_json(**bulk));
}

}  // namespace

// What a bulk is for never changes.
std::optional<Response> refuse_bulk(Context& context, const Call& call) {
  const auto id = api::id_of_cursor(call.id);
  if (!id) return no_such_bulk(call);
  const auto bulk = context.reads.run([&](MysqlStore& store) { return store.bulk(*id); });
  if (!bulk) return problem(bulk.error(), call.request.path);
  return *bulk ? refuse_bulk_of(call, (*bulk)->action, queue_of(**bulk), (*bulk)->elsewhere)
               : no_such_bulk(call);
}

Response create_bulk(Context& context, const Call& call) {
  FieldErrors errors;
  const Wish wish = read_wish(*call.json, call.who, context.rules()->targets(), errors);
  if (!errors.empty()) return problem(errors, kBulkPath);
  if (auto no = refuse_bulk_of(call, wish.bulk.action, wish.bulk.filter.queue, wish.bulk.elsewhere))
    return *std::move(no);
  if (wish.dry_run) {
    auto counts = context.reads.run(
        [&](MysqlStore& store) { return api::dry_run(store, wish.bulk, wish.by, *context.rules()); });
    return counts ? answer(200, *counts)
                  : filter_problem(wish.bulk.filter, counts.error(), kBulkPath, wish.by.has_value());
  }
  auto made = context.reads.run_once([&](MysqlStore& store) { return store.create_bulk(wish.bulk); });
  if (!made) return filter_problem(wish.bulk.filter, made.error(), kBulkPath);
  Json bulk = api::to_json(*made);
  if (wish.bulk.action == BulkAction::redrive) {
    const auto left_out =
        context.reads.run([&](MysqlStore& store) { return api::without_body(store, wish.bulk); });
    if (left_out) bulk["without_body"] = *left_out;
  }
  Response response = answer(202, bulk);
  response.headers.emplace_back("Location", kBulkPath + ("/" + std::to_string(made->id)));
  return response;
}

Response list_bulks(Context& context, const Call& call) {
  const api::Page page = call.query.page();
  const auto below = api::id_of_cursor(page.cursor);
  auto bulks = context.reads.run([&](MysqlStore& store) { return store.bulks(page.limit + 1, below); });
  return bulks ? answer(200, api::bulks_page(*bulks, page.limit)) : problem(bulks.error(), kBulkPath);
}

Response show_bulk(Context& context, const Call& call) {
  const auto id = api::id_of_cursor(call.id);
  if (!id) return no_such_bulk(call);
  auto bulk = context.reads.run([&](MysqlStore& store) { return store.bulk(*id); });
  if (!bulk) return problem(bulk.error(), call.request.path);
  if (!*bulk) return no_such_bulk(call);
  auto outcomes = context.reads.run([&](MysqlStore& store) { return api::outcomes_of(store, **bulk); });
  if (!outcomes) return problem(outcomes.error(), call.request.path);
  return answer(200, api::to_json(**bulk, *outcomes));
}

Response pause_bulk(Context& context, const Call& call) {
  return set_state(context, call, BulkState::paused);
}
Response resume_bulk(Context& context, const Call& call) {
  return set_state(context, call, BulkState::running);
}
Response abort_bulk(Context& context, const Call& call) {
  return set_state(context, call, BulkState::aborted);
}

}  // namespace rung::http
