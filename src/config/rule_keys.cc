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
    {"catch_up", integer(1, kMostCatchUp), "1000", live},
    {"retention", &Config::retention, own("duration, or off", read_retention), "off", live},
    {"parked", parked, "keep", live},
    {"ladders.*", own("list of durations", read_delays), "", live},
    {"ladders.*.base", duration(), "", live},
    {"ladders.*.factor", number().as("number from 1"), "2", live},
    {"ladders.*.max", duration(), "", live},
    {"ladders.*.levels", own("1 to 1000, or list of durations", read_levels), "", live},
    {"ladders.*.jitter", percent_or_off(), "off", live},
    {"queues.*.ladder", name(), "default", live},
    {"queues.*.success.presumed_after", duration(), "10m", live},
    {"queues.*.success.reported_within", duration(), "", live},
    {"queues.*.catch_up", integer(1, kMostCatchUp), "1000", live},
    {"queues.*.parked", parked, "keep", live},
    {"queues.*.late_by", duration(), "", live},
    {"queues.*.attachment", choice({"required", "ignored"}), "required", live},
    {"queues.*.rules", name(), "", live},
    {"queues.*.give_up.attempts", integer(1, kMostAttempts), "", live},
    {"queues.*.give_up.after", duration(), "", live},
    {"queues.*.gate.rate", own("rate, e.g. 200/s", read_rate), "", live},
    {"queues.*.gate.rate_by.header", own("name", read_rate_header), "", live},
    {"queues.*.gate.rate_by.rate", own("rate, e.g. 5/s", read_rate), "", live},
    {"queues.*.gate.window.allow", own("times of the week, or list of them", read_window_times), "", live},
    {"queues.*.gate.window.zone", own("time zone", read_zone), "", live},
    {"queues.*.gate.breaker.open_after", integer(1, kMostOutcomes), "20", live},
    {"queues.*.gate.breaker.of_last", integer(1, kMostOutcomes), "100", live},
    {"queues.*.gate.breaker.only", own("pattern, or list of patterns", read_only), "", live},
    {"queues.*.gate.breaker.wait", own("duration, or list of durations", read_wait), "[30s, 2m, 10m]", live},
    {"queues.*.gate.breaker.probes", integer(1, kMostProbes), "1", live},
    {"queues.*.gate.breaker.probe_timeout", duration(seconds{1}, hours{24}), "1m", live},
    {"queues.*.gate.breaker.close_after", integer(1, kMostOutcomes), "3", live},
    {"queues.*.gate.retry_after.cap", duration(), "", live},
    {"queues.*.gate.retry_after.max", duration(seconds{1}, hours{24}), "10m", live},
    {"queues.*.gate.retry_after.pauses", choice({"message", "queue"}), "message", live},
    {"tags.*.queue", amqp_name(), "", live},
    {"tags.*.exchange", amqp_name(), "", live},
    {"tags.*.routing_key", amqp_name().as("text"), "", live},
    {"tags.*.ladder", name(), "", live},
    {"tags.*.success.presumed_after", duration(), "", live},
    {"tags.*.success.reported_within", duration(), "", live},
    {"rules.*.when.type", pattern_or_patterns(), "", live},
    {"rules.*.when.error", regex, "", live},
    {"rules.*.when.reason", own("word, or list of words", read_reasons), "", live},
    {"rules.*.when.header", own("names with patterns", read_headers), "", live},
    {"rules.*.when.tag", pattern_or_patterns(), "", live},
    {"rules.*.when.queue", pattern_or_patterns(), "", live},
    {"rules.*.when.attempts_above", integer(0, kMostAttempts), "", live},
    {"rules.*.when.age_above", duration(Ms{0}), "", live},
    {"rules.*.then", own("retry, park or discard; or keys", read_action), "", live},
    {"rules.*.then.snooze", duration(), "", live},
    {"rules.*.then.delay", duration(), "", live},
    {"rules.*.then.ladder", name(), "", live},
    {"rules.*.then.to", amqp_name(), "", live},
    {"rules.*.type_from", regex, "", live},
    {"causes.*.match", cause_regex, "", start},
    {"causes.*.as", own("text", read_cause_name), "", start},
    {"causes.*.mask", cause_regex, "", start},
    {"delays.*.from", amqp_name(), "", start},
    {"delays.*.to", amqp_name(), "", start},
    {"delays.*.group", amqp_name(), "", start},
    {"error_queues.*.from", amqp_name().as("name or pattern"), "", start},
    {"error_queues.*.dialect", name(), "plain", start},
    {"error_queues.*.to", amqp_name(), "", start},
    {"error_queues.*.ladder", name(), "", live},
    {"error_queues.*.group", name(), "", start},
    {"dialects", own("path or list of paths", read_dialect_files), "", start},
  };
  // The defaults have the keys of queues.
  const auto of_queue = [](const Key& key) { return key.path.starts_with("queues.*"); };
  std::vector<Key> defaults;
  std::ranges::copy_if(keys, std::back_inserter(defaults), of_queue);
  for (Key& key : defaults) key.path.replace(0, std::string_view("queues.*").size(), "defaults");
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
