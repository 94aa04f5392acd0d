#include "src/cli/target_notes.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "levels/duration.h"
#include "src/cli/quorum_notes.h"

namespace rung::cli {
namespace {

using PlainJson = nlohmann::json;
using rabbit::Policy;
using rabbit::QueueFacts;

constexpr Ms kShortTtl{std::chrono::minutes{1}};

struct TargetSettings {
  const QueueFacts& facts;
  const std::vector<Policy>& policies;

  std::optional<std::int64_t> number(const char* name) const {
    const PlainJson value = queue_setting(facts, policies, name);
    return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
  }
  std::string overflow() const {
    const PlainJson value = queue_setting(facts, policies, "overflow");
    return value.is_string() ? value.get<std::string>() : "drop-head";
  }
};

void note_length(const TargetSettings& target, std::vector<TargetNote>& notes) {
  const auto length = target.number("max-length"), bytes = target.number("max-length-bytes");
  if (length == 0 || bytes == 0) {
    notes.push_back({"length",
                     "it holds no message (" + std::string(length == 0 ? "max-length" : "max-length-bytes") +
                         " is 0): the broker confirms a retry and drops it at once",
                     "remove the limit, or set a larger one"});
  }
  const std::string overflow = target.overflow();
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

void note_lifetime(const TargetSettings& target, std::vector<TargetNote>& notes) {
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

std::vector<TargetNote> target_notes(const QueueFacts& facts, const std::vector<Policy>& policies) {
  const TargetSettings target{facts, policies};
  std::vector<TargetNote> notes;
  note_length(target, notes);
  note_lifetime(target, notes);
  return notes;
}

}  // namespace rung::cli
