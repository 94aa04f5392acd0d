// Notes on settings of a queue that matter to its retries, for rung attach, rung attached and rung doctor.
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "levels/duration.h"
#include "src/cli/attach/attach.h"

namespace rung::cli {

namespace {

using PlainJson = nlohmann::json;
using rabbit::Policy;
using rabbit::QueueFacts;

constexpr std::int64_t kDefaultLimit = 20;  // RabbitMQ 4

// What a queue's arguments and the policy in effect set.
struct Settings {
  const QueueFacts& facts;
  const std::vector<Policy>& policies;

  // Null if neither sets it.
  PlainJson setting(std::string_view name) const {
    const Policy* policy = rabbit::find_policy(policies, facts.policy);
    const bool told = !facts.effective_policy.is_null() || policy == nullptr;
    const auto set =
        rabbit::setting_of(facts.arguments, told ? facts.effective_policy : policy->definition, name);
    return set ? set->value : PlainJson();
  }
  std::optional<std::int64_t> number(const char* name) const {
    const PlainJson value = setting(name);
    return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
  }
};

// Which deliveries count toward the limit differs between versions, so the note says it.
QueueNote limit_note(const Settings& queue) {
  constexpr const char* kCounts =
      "; since RabbitMQ 4.3, basic.reject with requeue counts toward the limit, and basic.nack with requeue "
      "does not";
  const PlainJson limit = queue.setting("delivery-limit");
  if (limit.is_null()) {
    return {"limit",
            std::string("a quorum queue without an explicit delivery limit: RabbitMQ 4 dead-letters a "
                        "message after 20 failed deliveries") +
                kCounts,
            "set delivery-limit by a policy, or the argument x-delivery-limit, if 20 is not what you want"};
  }
  return {"limit", "delivery limit " + limit.dump() + kCounts, {}};
}

QueueNote strategy_note(const Settings& queue) {
  if (queue.setting("dead-letter-strategy") != "at-least-once") {
    return {"strategy",
            "dead letters are transferred at most once, also those over the delivery limit: a broker failure "
            "at that moment loses one",
            "set dead-letter-strategy: at-least-once and overflow: reject-publish by a policy"};
  }
  if (queue.setting("overflow") != "reject-publish") {
    return {"strategy", "dead-letter-strategy at-least-once has no effect without overflow: reject-publish",
            "set overflow: reject-publish by a policy"};
  }
  return {"strategy", "dead letters are transferred at least once", {}};
}

// The maximum time that the broker delays a message before the delivery limit: the sum of min(n * least,
// most).
Ms longest_hold(std::int64_t least, std::int64_t most, std::int64_t limit) {
  const std::int64_t longest = levels::kLongest.count();
  std::int64_t all = 0;
  for (std::int64_t n = 1; n <= limit && all < longest; ++n)
    all += std::min({most, least > longest / n ? longest : least * n, longest});
  return Ms{std::min(all, longest)};
}

std::optional<QueueNote> delayed_retry_note(const Settings& queue, const std::optional<Silence>& silence) {
  const PlainJson type = queue.setting("delayed-retry-type");
  const auto least = queue.number("delayed-retry-min");
  // Without a minimum the broker does not delay.
  if (!type.is_string() || type == "disabled" || !least || *least <= 0) return std::nullopt;
  const std::int64_t most = queue.number("delayed-retry-max").value_or(*least);
  const std::int64_t limit = queue.number("delivery-limit").value_or(kDefaultLimit);
  const std::string given_back = type == "all"        ? "messages returned to the queue"
                                 : type == "returned" ? "messages returned by basic.nack"
                                                      : "messages returned by basic.reject";
  std::string what = "RabbitMQ's own delayed retry (" + type.get<std::string>() + ") delays " + given_back +
                     ", " + levels::format_duration(Ms{*least}) + " times the number of deliveries, up to " +
                     levels::format_duration(Ms{std::max(most, *least)}) +
                     ": only messages that are rejected without requeue, or exceed the delivery limit, reach "
                     "Rung, and each retry by Rung starts the delayed retry again";
  if (limit < 0 || type == "returned") {
    return QueueNote{
        "delayed_retry",
        what + (limit < 0 ? "; without a delivery limit it never ends"
                          : "; returns by basic.nack do not count toward the limit, so it never ends"),
        "set delayed-retry-type: failed and a delivery-limit, and let consumers reject"};
  }
  const Ms hold = longest_hold(*least, std::max(most, *least), limit);
  what += "; up to " + levels::format_duration(hold) + " until the limit of " + std::to_string(limit);
  if (silence && silence->after <= hold) {
    return QueueNote{"delayed_retry",
                     what + ", which is longer than success." +
                         (silence->means == Silence::Means::success ? "presumed_after" : "reported_within") +
                         " (" + levels::format_duration(silence->after) + "): Rung counts a retry as " +
                         (silence->means == Silence::Means::success ? "succeeded" : "failed") +
                         " while the broker still delays it",
                     "set it to more than " + levels::format_duration(hold) +
                         ", or a smaller delivery-limit or delayed-retry-max"};
  }
  return QueueNote{"delayed_retry", std::move(what), {}};
}

std::optional<QueueNote> consumer_timeout_note(const Settings& queue) {
  const auto timeout = queue.number("consumer-timeout");
  if (!timeout || *timeout <= 0) return std::nullopt;
  return QueueNote{"consumer_timeout",
                   "RabbitMQ 4.3 cancels a consumer (basic.cancel) that keeps a message unacked for " +
                       levels::format_duration(Ms{*timeout}) +
                       ", and requeues its messages: the consumer must subscribe again",
                   {}};
}

constexpr Ms kShortTtl{std::chrono::minutes{1}};

void note_length(const Settings& target, std::vector<QueueNote>& notes) {
  const auto length = target.number("max-length"), bytes = target.number("max-length-bytes");
  if (length == 0 || bytes == 0) {
    notes.push_back({"length",
                     "it holds no message (" + std::string(length == 0 ? "max-length" : "max-length-bytes") +
                         " is 0): the broker confirms a retry and drops it at once",
                     "remove the limit, or set a larger one"});
  }
  const PlainJson set = target.setting("overflow");
  const std::string overflow = set.is_string() ? set.get<std::string>() : "drop-head";
  if (overflow == "reject-publish-dlx") {
    notes.push_back({"overflow",
                     "when it is full, each refused retry is dead-lettered as well (overflow "
                     "reject-publish-dlx): it comes back to Rung, which counts nothing, at each try",
                     "set overflow: reject-publish, which refuses without dead-lettering"});
  } else if (overflow != "reject-publish" && (length.value_or(0) > 0 || bytes.value_or(0) > 0)) {
    notes.push_back({"overflow",
                     "when it is full, it drops its oldest messages, also retries that it had confirmed "
                     "(overflow " +
                         overflow + "): a dropped retry counts as a failure, and takes a level",
                     "set overflow: reject-publish: then retries wait at Rung until there is room"});
  }
}

void note_lifetime(const Settings& target, std::vector<QueueNote>& notes) {
  if (const auto ttl = target.number("message-ttl"); ttl && *ttl >= 0 && *ttl < kShortTtl.count()) {
    notes.push_back(
        {"ttl",
         "its messages expire after " + levels::format_duration(Ms{*ttl}) +
             ": a retry that no consumer has taken by then counts as a failure, and takes a level",
         "set a longer message-ttl, or none"});
  }
  if (const auto expires = target.number("expires")) {
    notes.push_back({"expires",
                     "the broker deletes it, with confirmed retries in it, when it is unused for " +
                         levels::format_duration(Ms{*expires}) + ": they are lost, and silence is a success",
                     "remove expires"});
  }
  if (target.facts.auto_delete || target.facts.exclusive) {
    notes.push_back(
        {"auto_delete",
         "the broker deletes it, with confirmed retries in it, when its last consumer leaves: they "
         "are lost, and silence is a success",
         "declare a queue that is neither auto-delete nor exclusive"});
  }
  if (!target.facts.durable) {
    notes.push_back({"durable",
                     "it is not durable: a restart of the broker loses it, with confirmed retries in it",
                     "declare a durable queue"});
  }
}

}  // namespace

std::vector<QueueNote> target_notes(const QueueFacts& facts, const std::vector<Policy>& policies) {
  const Settings target{facts, policies};
  std::vector<QueueNote> notes;
  note_length(target, notes);
  note_lifetime(target, notes);
  return notes;
}

std::vector<QueueNote> queue_notes(const QueueFacts& facts, const std::vector<Policy>& policies,
                                   const std::optional<Silence>& silence) {
  std::vector<QueueNote> notes = target_notes(facts, policies);
  if (facts.type != "quorum") return notes;
  const Settings queue{facts, policies};
  notes.push_back(limit_note(queue));
  notes.push_back(strategy_note(queue));
  for (auto note : {delayed_retry_note(queue, silence), consumer_timeout_note(queue)}) {
    if (note) notes.push_back(*std::move(note));
  }
  return notes;
}

}  // namespace rung::cli
