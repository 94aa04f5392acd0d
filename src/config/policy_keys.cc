// The keys of policies: the lists below `rules`, and what queues and defaults say about them. A part of the
// key table (keys.cc).
#include <algorithm>

#include "src/config/draft.h"

namespace rung::confile {
namespace {

constexpr int kMostAttempts = 1'000'000;

QueueDraft& policy_queue(Value& v) { return *v.draft.queue; }
RuleDraft& rule(Value& v) { return v.draft.rule_lists.back().rules.back(); }
RuleConditions& when(Value& v) { return rule(v).rule.when; }
RuleAction& then(Value& v) {
  rule(v).has_then = true;
  return rule(v).rule.then;
}

bool set_regex(Value& v, std::optional<RuleRegex>& out) {
  std::string text;
  if (!v.text(text)) return false;
  auto regex = parse_rule_regex(text);
  // The library's message quotes a part of the expression.
  if (!regex)
    return v.add_error(v.may_quote() ? regex.error().message : v.shown() + " is not a regular expression");
  out = *std::move(regex);
  return true;
}

bool set_cause_regex(Value& v, std::optional<RuleRegex>& out) {
  if (v.node.text.size() > kCauseRegexBytes)
    return v.add_error("longer than " + std::to_string(kCauseRegexBytes) + " bytes");
  if (!set_regex(v, out)) return false;
  if (!matches_nothing(*out)) return true;
  out.reset();
  return v.add_error("the expression also matches no characters, and so every error");
}

bool set_cause_name(Value& v) {
  std::string& name = v.draft.causes.back().as;
  if (!v.text(name)) return false;
  if (name.size() <= kCauseNameBytes) return true;
  return v.add_error("longer than " + std::to_string(kCauseNameBytes) + " bytes");
}

bool set_reasons(Value& v) {
  std::vector<std::string> words;
  if (!v.patterns(words)) return false;
  for (const std::string& word : words) {
    if (std::ranges::find(failure_reasons(), word) != failure_reasons().end()) continue;
    return v.add_error((v.may_quote() ? in_quotes(word) : "the value") +
                       " is not rejected, expired, maxlen, delivery_limit, returned or silent" +
                       (v.may_quote() ? did_you_mean(word, failure_reasons()) : ""));
  }
  when(v).reasons = std::move(words);
  return true;
}

bool set_headers(Value& v) {
  if (v.node.kind != Node::Kind::map || v.node.entries.empty())
    return v.node.invalid ? false : v.add_error("expected header names with patterns, e.g. { tier: gold }");
  for (const Entry& entry : v.node.entries) {
    Value name{v.draft, v.problems, entry.key, v.path};
    Value pattern{v.draft, v.problems, entry.value, v.path + "." + entry.key.text};
    std::string header, wanted;
    if (!name.amqp_name(header) || !pattern.amqp_name(wanted)) return false;
    if (header.starts_with("retry-"))
      return name.add_error(
          "Rung removes headers that begin with retry-: use type, error, reason or "
          "attempts_above");
    when(v).headers.emplace(std::move(header), std::move(wanted));
  }
  return true;
}

bool set_action(Value& v) {
  if (v.node.kind == Node::Kind::text && (v.node.text == "snooze" || v.node.text == "delay"))
    return v.add_error("the duration is missing: write { " + v.node.text + ": 5m }");
  if (v.node.kind == Node::Kind::text && (v.node.text == "ladder" || v.node.text == "to"))
    return v.add_error("the name is missing: write { " + v.node.text + ": NAME }");
  std::string word;
  if (!v.choice(word, {"retry", "park", "discard"})) return false;
  then(v).kind = word == "park"      ? RuleAction::Kind::park
                 : word == "discard" ? RuleAction::Kind::discard
                                     : RuleAction::Kind::retry;
  return true;
}

bool set_snooze(Value& v) {
  then(v).kind = RuleAction::Kind::snooze;
  return v.duration(then(v).snooze, Ms{1}, levels::kLongest);
}

bool set_rule_ladder(Value& v) {
  rule(v).ladder_mark = v.node.mark;
  rule(v).ladder_substituted = v.node.substituted;
  return v.name(then(v).ladder, 64);
}

bool set_to(Value& v) {
  rule(v).to_mark = v.node.mark;
  return v.amqp_name(then(v).to);
}

bool set_queues(Value& v) {
  rule(v).queue_mark = v.node.mark;
  return v.patterns(when(v).queues);
}

bool set_error(Value& v) {
  rule(v).error_mark = v.node.mark;
  return set_regex(v, when(v).error);
}

bool set_type_from(Value& v) {
  rule(v).type_from_mark = v.node.mark;
  return set_regex(v, rule(v).rule.type_from);
}

bool set_rules(Value& v) {
  policy_queue(v).rules_mark = v.node.mark;
  return v.optional(policy_queue(v).rules, &Value::name, 64);
}

bool set_attachment(Value& v) {
  std::string word;
  if (!v.choice(word, {"required", "ignored"})) return false;
  policy_queue(v).needs_attachment = word == "required";
  return true;
}

}  // namespace

std::vector<Key> policy_keys() {
  // clang-format off
  return {
    {{"defaults.rules", "name", "", true, false, "as for queues, for every queue that does not set it"}, set_rules},
    {{"defaults.give_up.attempts", "1 to 1000000", "", true, false, "as for queues, for every queue that does not set it"},
     [](Value& v) { return v.optional(policy_queue(v).give_up_attempts, &Value::integer, 1, kMostAttempts); }},
    {{"defaults.give_up.after", "duration", "", true, false, "as for queues, for every queue that does not set it"},
     [](Value& v) { return v.optional(policy_queue(v).give_up_after, &Value::duration, Ms{1}, levels::kLongest); }},
    {{"defaults.attachment", "required or ignored", "required", true, false,
      "as for queues, for every queue that does not set it"},
     set_attachment},
    {{"defaults.late_by", "duration", "", true, false, "as for queues, for every queue that does not set it"},
     [](Value& v) { return v.optional(policy_queue(v).late_by, &Value::duration, Ms{1}, levels::kLongest); }},
    {{"queues.*.late_by", "duration", "", true, false,
      "promise of lateness: a delivery is confirmed within this after its due time, not counting time behind a gate; Rung counts how many are"},
     [](Value& v) { return v.optional(policy_queue(v).late_by, &Value::duration, Ms{1}, levels::kLongest); }},
    {{"queues.*.attachment", "required or ignored", "required", true, false,
      "required: while a queue that was attached is not, silence is no success. ignored: its consumer publishes its failures itself"},
     set_attachment},
    {{"queues.*.rules", "name", "", true, false, "list under rules that decides about failures in this queue; see docs/policies.md"},
     set_rules},
    {{"queues.*.give_up.attempts", "1 to 1000000", "", true, false,
      "park a task after this many failed retries, even if its ladder has more levels"},
     [](Value& v) { return v.optional(policy_queue(v).give_up_attempts, &Value::integer, 1, kMostAttempts); }},
    {{"queues.*.give_up.after", "duration", "", true, false,
      "park a task instead of retrying it later than this after its first failure; time behind a gate is not counted"},
     [](Value& v) { return v.optional(policy_queue(v).give_up_after, &Value::duration, Ms{1}, levels::kLongest); }},

    {{"rules.*.when.type", "pattern, or list of patterns", "", true, false,
      "condition: the error type (retry-error-type, or found by type_from); * matches any characters"},
     [](Value& v) { return v.patterns(when(v).types); }},
    {{"rules.*.when.error", "/regular expression/", "", true, false,
      "condition: the expression matches somewhere in the error text; RE2 syntax; /.../i ignores case"},
     set_error},
    {{"rules.*.when.reason", "word, or list of words", "", true, false,
      "condition: why it failed: rejected, expired, maxlen, delivery_limit, returned or silent"},
     set_reasons},
    {{"rules.*.when.header", "names with patterns", "", true, false,
      "condition: headers of the message when Rung took it in, e.g. { tier: gold }"},
     set_headers},
    {{"rules.*.when.tag", "pattern, or list of patterns", "", true, false,
      "condition: the message's tag (property type)"},
     [](Value& v) { return v.patterns(when(v).tags); }},
    {{"rules.*.when.queue", "pattern, or list of patterns", "", true, false,
      "condition: the queue in which it failed, for rules that several queues use"},
     set_queues},
    {{"rules.*.when.attempts_above", "0 to 1000000", "", true, false,
      "condition: more retries than this have failed; 0 excludes only the first failure"},
     [](Value& v) { return v.optional(when(v).attempts_above, &Value::integer, 0, kMostAttempts); }},
    {{"rules.*.when.age_above", "duration", "", true, false,
      "condition: the first failure was longer ago than this, not counting time behind a gate"},
     [](Value& v) { return v.optional(when(v).age_above, &Value::duration, Ms{0}, levels::kLongest); }},
    {{"rules.*.then", "retry, park or discard; or keys", "", true, false,
      "what happens to a failure that meets all conditions of when; the first rule that matches decides"},
     set_action},
    {{"rules.*.then.snooze", "duration", "", true, false,
      "wait for this long; the attempt is not counted, and the level stays the same"},
     set_snooze},
    {{"rules.*.then.delay", "duration", "", true, false, "retry after this instead of the level's delay"},
     [](Value& v) { return v.optional(then(v).delay, &Value::duration, Ms{1}, levels::kLongest); }},
    {{"rules.*.then.ladder", "name", "", true, false, "retry with this ladder instead of the queue's"},
     set_rule_ladder},
    {{"rules.*.then.to", "name", "", true, false, "retry in this queue instead"},
     set_to},
    {{"rules.*.type_from", "/regular expression/", "", true, false,
      "if the consumer names no error type: the first group of this expression, found in the error text, is the type for this rule"},
     set_type_from},

    {{"causes.*.match", "/regular expression/", "", false, false,
      "failures whose error it matches have one cause in each queue, whatever else varies; the first entry that matches decides"},
     [](Value& v) { return set_cause_regex(v, v.draft.causes.back().match); }},
    {{"causes.*.as", "text", "", false, false, "with match: the text of this cause"},
     set_cause_name},
    {{"causes.*.mask", "/regular expression/", "", false, false,
      "instead: what it matches in an error is a value, which does not count; before Rung's own masks"},
     [](Value& v) { return set_cause_regex(v, v.draft.causes.back().mask); }},
  };
  // clang-format on
}

}  // namespace rung::confile
