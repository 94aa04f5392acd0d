// The keys of ladders, queues, tags, rules, delays, causes and error queues: the other part of the table.
#include <algorithm>
#include <charconv>

#include "src/config/load.h"

namespace rung::confile {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using enum When;

constexpr int kMostCatchUp = 1'000'000, kMostAttempts = 1'000'000;
constexpr int kMostOutcomes = 1000, kMostProbes = 100;

// Below an hour, people could not inspect tasks that just ended, and late events (a result, a redelivery
// after a broker restart, a failure after a presumed success) would not find their task.
std::optional<std::optional<Ms>> read_retention(Value& v) {
  if (v.node.kind == Node::Kind::text && v.node.text == "off") return std::optional<Ms>();
  const auto keep = duration()(v);
  if (!keep) return std::nullopt;
  if (*keep < hours{1})
    return v.wrong(v.shown() +
                   " is too short: at least 1h, so that late results and failures still find their task");
  return keep;
}

std::optional<std::vector<Ms>> read_delays(Value& v) {
  if (!v.is_list("a list of delays, e.g. [5s, 30s, 1m], or { base: 10s, factor: 2, max: 1h, levels: 12 }"))
    return std::nullopt;
  return v.each(duration(Ms{0}));  // the ladder checks for zero and for the order of the delays
}

std::optional<Levels> read_levels(Value& v) {
  const auto as_levels = [](auto value) { return value ? std::optional<Levels>(*value) : std::nullopt; };
  if (v.node.kind == Node::Kind::list) return as_levels(read_delays(v));
  return as_levels(integer(1, levels::Ladder::kMostLevels)(v));
}

// "200/s", as publishes a second.
std::optional<double> read_rate(Value& v) {
  constexpr double kMost = 100'000, kMinute = 60, kHour = 3600;
  if (!v.is_text("a rate, e.g. 200/s")) return std::nullopt;
  const std::string& text = v.node.text;
  const char* const last = text.data() + text.size();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const std::string_view unit(end, static_cast<std::size_t>(last - end));
  // A number that is too large for from_chars is too high in any unit.
  const bool digits = end != text.data() && text.front() != '-';
  if (digits && unit.empty()) {
    const std::string plain = v.may_quote() ? text : "";
    return v.wrong(plain.empty() ? v.shown() + " has no unit: write e.g. 200/s, 200/m or 200/h"
                                 : v.shown() + ": the unit is missing: write " + plain + "/s, " + plain +
                                       "/m or " + plain + "/h");
  }
  const double of = unit == "/s" ? 1 : unit == "/m" ? kMinute : unit == "/h" ? kHour : 0;
  if (!digits || of == 0)
    return v.wrong(v.shown() + " is not a rate: write a whole number and /s, /m or /h, e.g. 200/s");
  const double per_second = static_cast<double>(number) / of;
  if (error != std::errc{} || per_second > kMost)
    return v.wrong(v.shown() + " is too high: at most 100000/s");
  if (number == 0) return v.wrong(v.shown() + " is too low: at least 1/h");
  return per_second;
}

// Headers that begin with retry- are Rung's own. `instead`: what to name.
std::optional<std::string> users_header(Value& v, const std::string& instead) {
  auto header = amqp_name()(v);
  if (header && header->starts_with("retry-"))
    return v.wrong("Rung removes headers that begin with retry-: " + instead);
  return header;
}

std::optional<std::string> read_rate_header(Value& v) {
  return users_header(v, "name a header of your messages");
}

// Checks a part of a window alone, so that an error has its position.
bool check_window(const Value& v, const Texts& allow, const std::string& zone, const std::string& otherwise) {
  const auto parsed = TimeWindow::parse(allow, zone);
  if (parsed) return true;
  // The message quotes the text as it is.
  const bool plain = in_quotes(v.node.text) == "\"" + v.node.text + "\"";
  v.wrong(v.may_quote() && plain ? parsed.error().message : v.shown() + otherwise);
  return false;
}

std::optional<Texts> read_window_times(Value& v) {
  if (v.node.kind == Node::Kind::list && v.node.items.empty())
    return v.wrong("the list is empty, so the window never opens: write e.g. \"Mon-Fri 08:00-18:00\"");
  return v.one_or_each([](Value& one) {
    auto times = text()(one);
    const bool ok = times && check_window(one, {*times}, "UTC",
                                          " is not a time of the week: write e.g. \"Mon-Fri 08:00-18:00\"");
    return ok ? times : std::nullopt;
  });
}

std::optional<std::string> read_zone(Value& v) {
  const Texts always{"00:00-24:00"};
  auto zone = text()(v);
  if (!zone || TimeWindow::parse(always, *zone)) return zone;
  const std::string near = v.may_quote() ? did_you_mean(*zone, time_zones()) : "";
  if (!near.empty()) return v.wrong(v.shown() + ": unknown time zone" + near);
  check_window(v, always, *zone, " is not a time zone: write e.g. Europe/Berlin");
  return std::nullopt;
}

std::optional<Texts> read_only(Value& v) {
  auto types = pattern_or_patterns()(v);
  if (types && types->empty()) return v.wrong("the list is empty: remove the key, and all failures count");
  return types;
}

std::optional<std::vector<Ms>> read_wait(Value& v) {
  if (v.node.kind == Node::Kind::list && v.node.items.empty())
    return v.wrong("the list is empty: write e.g. [30s, 2m, 10m]");
  return v.one_or_each(duration(seconds{1}));
}

std::optional<RuleRegex> read_regex(Value& v) {
  const auto expression = text()(v);
  if (!expression) return std::nullopt;
  const auto regex = parse_rule_regex(*expression);
  if (regex) return *regex;
  // The library's message quotes a part of the expression.
  return v.wrong(v.may_quote() ? regex.error().message : v.shown() + " is not a regular expression");
}

std::optional<RuleRegex> read_cause_regex(Value& v) {
  if (v.node.text.size() > kCauseRegexBytes)
    return v.wrong("longer than " + std::to_string(kCauseRegexBytes) + " bytes");
  auto regex = read_regex(v);
  if (regex && regex->matches(""))
    return v.wrong("the expression also matches no characters, and so every error");
  return regex;
}

std::optional<std::string> read_cause_name(Value& v) {
  auto name = text()(v);
  if (name && name->size() > kCauseNameBytes)
    return v.wrong("longer than " + std::to_string(kCauseNameBytes) + " bytes");
  return name;
}

std::optional<Texts> read_reasons(Value& v) {
  return v.one_or_each([](Value& one) {
    auto word = amqp_name()(one);
    return word ? choice(failure_reasons())(one) : word;
  });
}

std::optional<RuleHeaders> read_headers(Value& v) {
  const std::string wanted = "header names with patterns, e.g. { tier: gold }";
  if (!v.is_map(wanted)) return std::nullopt;
  if (v.node.entries.empty()) return v.wrong("expected " + wanted);
  const auto all = v.each_entry(
      [](Value& header) { return users_header(header, "use type, error, reason or attempts_above"); },
      amqp_name());
  return all ? std::optional(RuleHeaders(all->begin(), all->end())) : std::nullopt;
}

std::optional<std::string> read_action(Value& v) {
  const std::string& word = v.node.text;
  if (word == "snooze" || word == "delay")
    return v.wrong("the duration is missing: write { " + word + ": 5m }");
  if (word == "ladder" || word == "to") return v.wrong("the name is missing: write { " + word + ": NAME }");
  return choice({"retry", "park", "discard"})(v);
}

std::optional<Texts> read_dialect_files(Value& v) { return v.one_or_each(file()); }

}  // namespace

// clang-format off
std::vector<Key> rule_keys() {
  const Reader<std::string> parked = choice({"keep", "publish"});
  const Reader<RuleRegex> regex = own("/regular expression/", read_regex);
  const Reader<RuleRegex> cause_regex = own("/regular expression/", read_cause_regex);
  std::vector<Key> keys = {
    {"catch_up", integer(1, kMostCatchUp), "1000", live,
     "tasks per second and queue that are overdue by more than 5s"},
    {"retention", &Config::retention, own("duration, or off", read_retention), "off", live,
     "tasks that succeeded, were cancelled or discarded longer ago are deleted; at least 1h"},
    {"parked", parked, "keep", live,
     "publish: a copy of each parked message goes to the exchange rung.parked"},
    {"ladders.*", own("list of durations", read_delays), "", live,
     "a named ladder: its delays, level 1 first; or the keys below"},
    {"ladders.*.base", duration(), "", live, "first delay of a computed ladder"},
    {"ladders.*.factor", number().as("number from 1"), "2", live, "multiplier from each delay to the next"},
    {"ladders.*.max", duration(), "", live, "maximum delay; default: 3650d"},
    {"ladders.*.levels", own("1 to 1000, or list of durations", read_levels), "", live,
     "number of levels; or the list of delays"},
    {"ladders.*.jitter", percent_or_off(), "off", live,
     "lengthens each delay by a random part of it, up to this percentage"},
    {"queues.*.ladder", name(), "default", live, "ladder of the queue: one under ladders, or a predefined one"},
    {"queues.*.success.presumed_after", duration(), "10m", live, "silence for this long after a retry means success"},
    {"queues.*.success.reported_within", duration(), "", live,
     "silence for this long after a retry means failure"},
    {"queues.*.catch_up", integer(1, kMostCatchUp), "1000", live,
     "catch_up of this queue"},
    {"queues.*.parked", parked, "keep", live, "parked of this queue"},
    {"queues.*.late_by", duration(), "", live,
     "promise: deliveries are confirmed within this after due time; breaches are counted"},
    {"queues.*.attachment", choice({"required", "ignored"}), "required", live,
     "required: silence is no success while a queue that was attached is not"},
    {"queues.*.rules", name(), "", live,
     "list under rules that decides about failures; see docs/policies.md"},
    {"queues.*.give_up.attempts", integer(1, kMostAttempts), "", live,
     "park a task after this many failed retries, even if its ladder has more levels"},
    {"queues.*.give_up.after", duration(), "", live,
     "park a task instead of retrying it later than this after its first failure"},
    {"queues.*.gate.rate", own("rate, e.g. 200/s", read_rate), "", live,
     "most publishes to this queue, over all instances; per s, m or h, 1/h to 100000/s"},
    {"queues.*.gate.rate_by.header", own("name", read_rate_header), "", live,
     "header for each of whose values rate_by.rate applies"},
    {"queues.*.gate.rate_by.rate", own("rate, e.g. 5/s", read_rate), "", live,
     "most publishes for each value of the header, over all instances"},
    {"queues.*.gate.window.allow", own("times of the week, or list of them", read_window_times), "", live,
     "when messages may go out: \"Mon-Fri 08:00-18:00\", \"22:00-06:00\" (every day, ends on the next)"},
    {"queues.*.gate.window.zone", own("time zone", read_zone), "", live,
     "time zone of window.allow, e.g. Europe/Berlin"},
    {"queues.*.gate.breaker.open_after", integer(1, kMostOutcomes), "20", live,
     "open when this many of the last of_last outcomes are failures"},
    {"queues.*.gate.breaker.of_last", integer(1, kMostOutcomes), "100", live,
     "how many of the last outcomes are considered"},
    {"queues.*.gate.breaker.only", own("pattern, or list of patterns", read_only), "", live,
     "error types that count as failures; * matches any characters; default: all"},
    {"queues.*.gate.breaker.wait", own("duration, or list of durations", read_wait), "[30s, 2m, 10m]", live,
     "how long it stays open the first, second ... time in a row; at least 1s"},
    {"queues.*.gate.breaker.probes", integer(1, kMostProbes), "1", live,
     "how many messages at a time go out as probes"},
    {"queues.*.gate.breaker.probe_timeout", duration(seconds{1}, hours{24}), "1m", live,
     "how long a probe may be without an answer; 1s to 1d"},
    {"queues.*.gate.breaker.close_after", integer(1, kMostOutcomes), "3", live,
     "how many probes in a row must succeed before it closes"},
    {"queues.*.gate.retry_after.cap", duration(), "", live,
     "the longest retry-after; default: the ladder's highest delay"},
    {"queues.*.gate.retry_after.max", duration(seconds{1}, hours{24}), "10m", live,
     "with pauses: queue, the longest; 1s to 1d"},
    {"queues.*.gate.retry_after.pauses", choice({"message", "queue"}), "message", live,
     "what a consumer's retry-after holds back"},
    {"tags.*.queue", amqp_name(), "", live,
     "target of delayed messages with this tag that name none"},
    {"tags.*.exchange", amqp_name(), "", live, "instead of queue: target exchange"},
    {"tags.*.routing_key", amqp_name().as("text"), "", live, "routing key for exchange; default: empty"},
    {"tags.*.ladder", name(), "", live,
     "ladder of these messages, once they fail; default: that of the queue"},
    {"tags.*.success.presumed_after", duration(), "", live, "as for queues; default: that of the queue"},
    {"tags.*.success.reported_within", duration(), "", live, "as for queues; default: that of the queue"},
    {"rules.*.when.type", pattern_or_patterns(), "", live,
     "the error type; * matches any characters"},
    {"rules.*.when.error", regex, "", live,
     "matches somewhere in the error text (RE2); /.../i ignores case"},
    {"rules.*.when.reason", own("word, or list of words", read_reasons), "", live,
     "why it failed: rejected, expired, maxlen, delivery_limit, returned or silent"},
    {"rules.*.when.header", own("names with patterns", read_headers), "", live,
     "headers of the message when Rung took it in, e.g. { tier: gold }"},
    {"rules.*.when.tag", pattern_or_patterns(), "", live, "the message's tag (property type)"},
    {"rules.*.when.queue", pattern_or_patterns(), "", live,
     "the queue in which it failed"},
    {"rules.*.when.attempts_above", integer(0, kMostAttempts), "", live,
     "more retries than this have failed"},
    {"rules.*.when.age_above", duration(Ms{0}), "", live,
     "the first failure was longer ago"},
    {"rules.*.then", own("retry, park or discard; or keys", read_action), "", live,
     "what happens to a failure that meets all conditions of when"},
    {"rules.*.then.snooze", duration(), "", live,
     "wait for this long; the level stays, the attempt is not counted"},
    {"rules.*.then.delay", duration(), "", live, "retry after this instead of the level's delay"},
    {"rules.*.then.ladder", name(), "", live, "retry with this ladder instead of the queue's"},
    {"rules.*.then.to", amqp_name(), "", live, "retry in this queue instead"},
    {"rules.*.type_from", regex, "", live,
     "its first group in the error text is the type, if the consumer names none"},
    {"causes.*.match", cause_regex, "", start,
     "failures whose error it matches have one cause in each queue"},
    {"causes.*.as", own("text", read_cause_name), "", start, "with match: the text of this cause"},
    {"causes.*.mask", cause_regex, "", start,
     "instead: what it matches in an error is a value, which does not count"},
    {"delays.*.from", amqp_name(), "", start,
     "exchange (a durable fanout) whose messages are delayed by x-delay"},
    {"delays.*.to", amqp_name(), "", start, "exchange that they go to when due"},
    {"delays.*.group", amqp_name(), "", start, "with groups: the group that receives these messages"},
    {"error_queues.*.from", amqp_name().as("name or pattern"), "", start,
     "error queue of a framework; * matches any characters: all that exist"},
    {"error_queues.*.dialect", name(), "plain", start, "how the framework describes a failure: `rung dialects`"},
    {"error_queues.*.to", amqp_name(), "", start, "queue that the messages go back to; default: as the dialect says"},
    {"error_queues.*.ladder", name(), "", live,
     "ladder for them, or none: parked at once; default: that of their queue"},
    {"error_queues.*.group", name(), "", start, "with groups: the group that takes these messages in"},
    {"dialects", own("path or list of paths", read_dialect_files), "", start,
     "files with dialects of your own, one each"},
  };
  // The defaults have the keys of queues.
  const auto of_queue = [](const Key& key) { return key.about.path.starts_with("queues.*"); };
  std::vector<Key> defaults;
  std::ranges::copy_if(keys, std::back_inserter(defaults), of_queue);
  for (Key& key : defaults) {
    key.about.path.replace(0, std::string_view("queues.*").size(), "defaults");
    key.about.meaning = "as for queues";
  }
  keys.insert(std::ranges::find_if(keys, of_queue), defaults.begin(), defaults.end());
  return keys;
}
// clang-format on

const Table& config_table() {
  static const Table table = [] {
    Table all{service_keys(),
              {{"rules.*", kRuleForm},
               {"causes", kCauseForm},
               {"delays", kDelayForm},
               {"error_queues", kErrorQueueForm}}};
    std::ranges::move(rule_keys(), std::back_inserter(all.keys));
    return all;
  }();
  return table;
}

}  // namespace rung::confile
