// Notes on settings of a queue that matter to its retries, for rung attach, rung attached and rung doctor.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "levels/duration.h"
#include "src/cli/attach/attach.h"

namespace rung::cli {

namespace {

using PlainJson = nlohmann::json;

constexpr std::int64_t kDefaultLimit = 20;  // RabbitMQ 4
constexpr Ms kShortTtl{std::chrono::minutes{1}};

// What a queue's arguments and the policies in effect set.
struct Settings {
  Settings(const rabbit::QueueFacts& facts, const std::vector<rabbit::Policy>& policies)
      : arguments(facts.arguments), policy(facts.effective_policy) {
    const rabbit::Policy* its = rabbit::find_policy(policies, facts.policy);
    if (policy.is_null() && its != nullptr) policy = its->definition;
  }

  // Null if neither sets it.
  PlainJson setting(std::string_view name) const {
    const auto set = rabbit::setting_of(arguments, policy, name);
    return set ? set->value : PlainJson();
  }
  std::optional<std::int64_t> number(const char* name) const {
    const PlainJson value = setting(name);
    return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
  }

  const PlainJson& arguments;
  PlainJson policy;
};

std::string duration(std::optional<std::int64_t> ms) { return levels::format_duration(Ms{ms.value_or(0)}); }

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
  const std::int64_t most = std::max(queue.number("delayed-retry-max").value_or(*least), *least);
  const std::int64_t limit = queue.number("delivery-limit").value_or(kDefaultLimit);
  QueueNote note{
      "delayed_retry",
      fmt::format("RabbitMQ's own delayed retry ({}) delays returned messages, {} times the number "
                  "of deliveries, up to {}: Rung gets those that are rejected without requeue, or "
                  "exceed the delivery limit, and each of its retries begins again",
                  type.get<std::string>(), duration(least), duration(most))};
  if (limit < 0 || type == "returned") {
    note.what += limit < 0 ? "; without a delivery limit it never ends"
                           : "; returns by basic.nack do not count toward the limit, so it never ends";
    note.fix = "set delayed-retry-type: failed and a delivery-limit, and let consumers reject";
    return note;
  }
  const Ms hold = longest_hold(*least, most, limit);
  const std::string held = levels::format_duration(hold);
  note.what += fmt::format("; up to {} until the limit of {}", held, limit);
  if (!silence || silence->after > hold) return note;
  const bool success = silence->means == Silence::Means::success;
  note.what += fmt::format(
      ", which is longer than success.{} ({}): Rung counts a retry as {} while the broker still delays it",
      success ? "presumed_after" : "reported_within", levels::format_duration(silence->after),
      success ? "succeeded" : "failed");
  note.fix = "set it to more than " + held + ", or a smaller delivery-limit or delayed-retry-max";
  return note;
}

}  // namespace

std::vector<QueueNote> target_notes(const rabbit::QueueFacts& facts,
                                    const std::vector<rabbit::Policy>& policies) {
  const Settings target(facts, policies);
  std::vector<QueueNote> notes;
  const auto note = [&](bool is, const char* name, const std::string& what, const char* fix) {
    if (is) notes.push_back({name, what, fix});
  };
  const auto length = target.number("max-length"), bytes = target.number("max-length-bytes"),
             ttl = target.number("message-ttl"), expires = target.number("expires");
  const PlainJson set = target.setting("overflow");
  const std::string overflow = set.is_string() ? set.get<std::string>() : "drop-head";
  const bool drops = !overflow.starts_with("reject-publish");
  note(length == 0 || bytes == 0, "length",
       "its max-length or max-length-bytes is 0: the broker confirms a retry and drops it at once",
       "remove the limit, or set a larger one");
  note(overflow == "reject-publish-dlx", "overflow",
       "when it is full, each refused retry is dead-lettered as well (overflow reject-publish-dlx): it comes "
       "back to Rung at each try",
       "set overflow: reject-publish");
  note(drops && (length.value_or(0) > 0 || bytes.value_or(0) > 0), "overflow",
       "when it is full, it drops its oldest messages (overflow " + overflow +
           "): a retry that it had confirmed counts as a failure",
       "set overflow: reject-publish: then retries wait at Rung until there is room");
  note(ttl && *ttl >= 0 && *ttl < kShortTtl.count(), "ttl",
       "its messages expire after " + duration(ttl) +
           ": a retry that no consumer has taken by then counts as a failure",
       "set a longer message-ttl, or none");
  const std::string lost = ", with confirmed retries in it: they are lost, and silence is a success";
  note(expires.has_value(), "expires",
       "the broker deletes it when it is unused for " + duration(expires) + lost, "remove expires");
  note(facts.auto_delete || facts.exclusive, "auto_delete",
       "the broker deletes it when its last consumer leaves" + lost,
       "declare a queue that is neither auto-delete nor exclusive");
  note(!facts.durable, "durable",
       "it is not durable: a restart of the broker loses it, with confirmed retries in it",
       "declare a durable queue");
  return notes;
}

std::vector<QueueNote> queue_notes(const rabbit::QueueFacts& facts,
                                   const std::vector<rabbit::Policy>& policies,
                                   const std::optional<Silence>& silence) {
  std::vector<QueueNote> notes = target_notes(facts, policies);
  if (facts.type != "quorum") return notes;
  const Settings queue(facts, policies);
  const PlainJson limit = queue.setting("delivery-limit");
  // Which deliveries count toward the limit differs between versions.
  const std::string counts =
      ": since RabbitMQ 4.3, basic.reject with requeue counts toward it, and basic.nack with requeue does "
      "not";
  if (limit.is_null()) {
    notes.push_back({"limit",
                     "it sets no delivery limit, so RabbitMQ 4 dead-letters a message after 20" + counts,
                     "set delivery-limit by a policy, or the argument x-delivery-limit, if 20 is not right"});
  } else {
    notes.push_back({"limit", "delivery limit " + limit.dump() + counts});
  }
  const bool refuses = queue.setting("overflow") == "reject-publish";
  if (refuses && queue.setting("dead-letter-strategy") == "at-least-once") {
    notes.push_back({"strategy", "dead letters are transferred at least once"});
  } else {
    notes.push_back(
        {"strategy",
         "dead letters are transferred at most once, also those over the delivery limit: a broker "
         "failure at that moment loses one",
         "set dead-letter-strategy: at-least-once and overflow: reject-publish by a policy"});
  }
  if (auto note = delayed_retry_note(queue, silence)) notes.push_back(*std::move(note));
  if (const auto timeout = queue.number("consumer-timeout"); timeout && *timeout > 0) {
    notes.push_back({"consumer_timeout",
                     "RabbitMQ 4.3 cancels a consumer (basic.cancel) that keeps a message unacked for " +
                         duration(timeout) +
                         ", and requeues its messages: the consumer must subscribe again"});
  }
  return notes;
}

}  // namespace rung::cli
