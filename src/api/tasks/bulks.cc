#include "src/api/tasks/bulks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "src/api/queues/gates.h"
#include "src/api/tasks/filter.h"
#include "src/api/tasks/pages.h"
#include "src/api/tasks/views.h"
#include "src/core/base/utf8.h"

namespace rung::api {
namespace {

constexpr std::size_t kMostPutBack = 500;  // in a transaction

bool is_unsent(const SentTask& task) { return task.state == State::scheduled && !task.published_at; }

// Parks again what a redrive has made due and is not sent yet.
Result<void> put_back(MysqlStore& store, const Bulk& bulk, const BulkControl& control,
                      const RuleBookPtr& rules) {
  if (bulk.action != BulkAction::redrive) return {};  // what was fired had another due time
  const auto sent = store.sent_by_bulk(bulk.id, kOutcomesCounted);
  if (!sent) return tl::unexpected(sent.error());
  std::vector<Event> events;
  for (const SentTask& task : *sent) {
    if (is_unsent(task))
      events.push_back({task.id, event::Park{}, ByHand{control.who, {}, control.reason, bulk.id}});
  }
  for (std::size_t at = 0; at < events.size(); at += kMostPutBack) {
    const auto some = std::span(events).subspan(at, std::min(kMostPutBack, events.size() - at));
    const auto decisions = store.apply(some, Fence{}, decider(rules));
    if (!decisions) return tl::unexpected(decisions.error());
  }
  return {};
}

}  // namespace

Result<std::optional<Bulk>> control_bulk(MysqlStore& store, const BulkControl& control,
                                         const RuleBookPtr& rules) {
  auto after = store.set_bulk(control);
  if (!after || !*after || !control.put_back) return after;
  if (auto done = put_back(store, **after, control, rules); !done) return tl::unexpected(done.error());
  return after;
}

std::string filter_text(const NewBulk& bulk) {
  Json json = filter_json(bulk.filter);
  if (bulk.limit > 0) json["limit"] = std::to_string(bulk.limit);
  return dump(json);
}

std::optional<double> parse_percent(std::string_view text) {
  if (text.empty() || text.back() != '%') return std::nullopt;
  text.remove_suffix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0 && value < 100))
    return std::nullopt;
  return value;
}

std::string percent_text(double percent) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), percent);
  return std::string(digits.data(), error == std::errc{} ? end : digits.data()) + "%";
}

Json stage_of(const Bulk& bulk) {
  if (bulk.care.canary == 0) return {};
  if (bulk.canary_done) return "all";
  return bulk.applied >= bulk.care.canary || bulk.done == bulk.total ? "watching" : "canary";
}

std::optional<WrongCare> wrong_care(const NewBulk& bulk) {
  const Care& care = bulk.care;
  if (bulk.action != BulkAction::redrive && (care.any() || care.watch)) {
    const std::string_view field = care.canary > 0 ? "canary"
                                   : care.ramp     ? "ramp"
                                   : care.watch    ? "watch"
                                                   : "stop_on_failures";
    return WrongCare{field, "only valid with the action redrive"};
  }
  if (care.watch && care.canary == 0)
    return WrongCare{"watch", "needs a canary: it says how long to wait for the canary's outcomes"};
  if (care.ramp && bulk.rate < 1)
    return WrongCare{"ramp", "needs a rate of at least 1 per second: the ramp begins at 1/s and ends there"};
  if (care.stop_above && bulk.rate <= 0)
    return WrongCare{"stop_on_failures",
                     "needs a rate: without one, all are sent before the first failure can come back"};
  return std::nullopt;
}

Result<std::optional<Outcomes>> outcomes_of(MysqlStore& store, const Bulk& bulk) {
  if (bulk.action != BulkAction::redrive && bulk.action != BulkAction::fire) return std::nullopt;
  const auto sent = store.sent_by_bulk(bulk.id, kOutcomesCounted);
  if (!sent) return tl::unexpected(sent.error());
  const auto records = attachments_of(store, *sent);
  if (!records) return tl::unexpected(records.error());
  Outcomes outcomes{count(*sent), {}};
  outcomes.counts.unread = unread_among(*sent, *records);
  if (outcomes.counts.unsent == 0) return outcomes;
  std::set<std::string_view> queues;
  for (const SentTask& task : *sent) {
    if (is_unsent(task)) queues.insert(task.queue);
  }
  auto gates = gates_in_force(store);
  if (!gates) return tl::unexpected(gates.error());
  for (QueueGate& gate : *gates) {
    if (gate.state != "rate_limited" && queues.contains(gate.queue)) outcomes.held.push_back(std::move(gate));
  }
  return outcomes;
}

Json to_json(const Bulk& bulk, const std::optional<Outcomes>& outcomes) {
  Json json = to_json(bulk);
  json["outcomes"] = nullptr;
  if (!outcomes) return json;
  const SentCounts& counts = outcomes->counts;
  json["outcomes"] = {{"sent", counts.sent},
                      {"succeeded", counts.succeeded},
                      {"failed", counts.failed},
                      {"open", counts.open},
                      {"not_yet_sent", counts.unsent},
                      {"held", Json::array()},
                      {"unread", text_or_null(counts.unread)}};
  for (const QueueGate& gate : outcomes->held) json["outcomes"]["held"].push_back(gate_json(gate));
  return json;
}

namespace {

bool gives_up_by_age(const RuleBook& rules) {
  const auto by_age = [](const QueueRules& queue) { return queue.give_up.after.has_value(); };
  return by_age(rules.defaults()) ||
         std::ranges::any_of(rules.queues(), [&](const auto& entry) { return by_age(entry.second); }) ||
         std::ranges::any_of(rules.patterns(), [&](const auto& entry) { return by_age(entry.rules); });
}

Result<std::vector<Expired>> expired_of(MysqlStore& store, const NewBulk& bulk, const RuleBook& rules,
                                        EpochMs now) {
  std::vector<Expired> out;
  if (!gives_up_by_age(rules)) return out;
  const std::int64_t most = bulk.limit > 0 ? bulk.limit : kMostCounted;
  const Filter all = of_bulk(bulk);
  const auto queues = store.count_by(all, {.field = "queue"}, most);
  if (!queues) return tl::unexpected(queues.error());
  for (const TaskCounts::Group& group : queues->groups) {
    const auto& after = rules.queue(group.value).give_up.after;
    if (!after) continue;
    Filter old = all;
    old.queue = group.value;
    old.first_failed_before = std::min(old.first_failed_before.value_or(now - *after), now - *after);
    const auto tasks = store.count(old, most);
    if (!tasks) return tl::unexpected(tasks.error());
    if (*tasks > 0) out.push_back({group.value, *after, *tasks});
  }
  return out;
}

Json expired_json(const std::vector<Expired>& expired) {
  Json json = Json::array();
  for (const Expired& one : expired)
    json.push_back({{"queue", one.queue}, {"after_ms", one.after.count()}, {"tasks", one.tasks}});
  return json;
}

}  // namespace

Result<std::int64_t> without_body(MysqlStore& store, const NewBulk& redrive) {
  Filter bodiless = of_bulk(redrive);
  bodiless.body_stored = false;
  return store.count(bodiless, kMostCounted);
}

Result<Json> redrive_notes(MysqlStore& store, const NewBulk& bulk, const RuleBook& rules) {
  Json notes = Json::object();
  if (bulk.action != BulkAction::redrive) return notes;
  const auto left_out = without_body(store, bulk);
  if (!left_out) return tl::unexpected(left_out.error());
  notes["without_body"] = *left_out;
  const auto now = store.now();
  if (!now) return tl::unexpected(now.error());
  const auto expired = expired_of(store, bulk, rules, *now);
  if (!expired) return tl::unexpected(expired.error());
  notes["expired"] = expired_json(*expired);
  return notes;
}

}  // namespace rung::api
