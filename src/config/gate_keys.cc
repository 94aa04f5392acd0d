// The keys of `gate`: when tasks of a queue may go out. A part of the key table (keys.cc).
#include <algorithm>
#include <charconv>
#include <cmath>

#include "src/config/draft.h"

namespace rung::confile {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr double kMostASecond = 100'000;
constexpr double kMinuteSeconds = 60, kHourSeconds = 3600;
constexpr int kMostOutcomes = 1000, kMostProbes = 100;

GateDraft& gate(Value& v) { return v.draft.queue->gate; }

// "200/s".
bool set_rate(Value& v, std::optional<double>& out) {
  if (!v.expect_scalar("a rate, e.g. 200/s")) return false;
  const std::string& text = v.node.text;
  const char* const last = text.data() + text.size();
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const std::string_view unit(end, static_cast<std::size_t>(last - end));
  // A number that is too large for from_chars is too high in any unit.
  const bool digits = end != text.data() && text.front() != '-';
  if (digits && unit.empty())
    return v.add_error(v.may_quote() ? v.shown() + ": the unit is missing: write " + text + "/s, " + text +
                                           "/m or " + text + "/h"
                                     : v.shown() + " has no unit: write e.g. 200/s, 200/m or 200/h");
  const double unit_seconds = unit == "/s"   ? 1
                              : unit == "/m" ? kMinuteSeconds
                              : unit == "/h" ? kHourSeconds
                                             : 0;
  if (!digits || unit_seconds == 0)
    return v.add_error(v.shown() + " is not a rate: write a whole number and /s, /m or /h, e.g. 200/s");
  const double per_second = static_cast<double>(number) / unit_seconds;
  if (error != std::errc{} || per_second > kMostASecond)
    return v.add_error(v.shown() + " is too high: at most 100000/s");
  if (number == 0) return v.add_error(v.shown() + " is too low: at least 1/h");
  out = per_second;
  return true;
}

bool set_rate_header(Value& v) {
  std::string name;
  if (!v.amqp_name(name)) return false;
  if (name.starts_with("retry-"))
    return v.add_error("Rung removes headers that begin with retry-: name a header of your messages");
  gate(v).by_header = std::move(name);
  return true;
}

// Checks a part of a window alone, so that an error has its position.
bool check_window(Value& v, const std::vector<std::string>& allow, const std::string& zone,
                  const std::string& otherwise) {
  const auto parsed = TimeWindow::parse(allow, zone);
  if (parsed) return true;
  // The message quotes the text as it is.
  constexpr std::size_t kLongestShown = 60;
  const bool plain = v.node.text.size() <= kLongestShown && std::ranges::none_of(v.node.text, [](char c) {
                       return static_cast<unsigned char>(c) < ' ' || c == 0x7f;
                     });
  return v.add_error(v.may_quote() && plain ? parsed.error().message : v.shown() + otherwise);
}

bool set_window_times(Value& v) {
  if (v.node.invalid) return false;
  std::vector<std::string> all;
  const auto add = [&](Value one) {
    std::string text;
    if (!one.text(text) ||
        !check_window(one, {text}, "UTC", " is not a time of the week: write e.g. \"Mon-Fri 08:00-18:00\""))
      return false;
    all.push_back(std::move(text));
    return true;
  };
  bool ok = true;
  if (v.node.kind == Node::Kind::list) {
    if (v.node.items.empty())
      return v.add_error("the list is empty, so the window never opens: write e.g. \"Mon-Fri 08:00-18:00\"");
    for (const Node& item : v.node.items) ok = add({v.draft, v.problems, item, v.path, v.secret}) && ok;
  } else {
    ok = add(v);
  }
  if (ok) gate(v).allow = std::move(all);
  return ok;
}

bool set_zone(Value& v) {
  std::string zone;
  if (!v.text(zone) ||
      !check_window(v, {"00:00-24:00"}, zone, " is not a time zone: write e.g. Europe/Berlin"))
    return false;
  gate(v).zone = std::move(zone);
  return true;
}

bool set_only(Value& v) {
  std::vector<std::string> types;
  if (!v.patterns(types)) return false;
  if (types.empty()) return v.add_error("the list is empty: remove the key, and all failures count");
  gate(v).only = std::move(types);
  return true;
}

// A duration, or a list of them.
bool set_wait(Value& v) {
  if (v.node.invalid) return false;
  std::vector<Ms> all;
  const auto add = [&](Value one) { return one.duration(all.emplace_back(), seconds{1}, levels::kLongest); };
  bool ok = true;
  if (v.node.kind == Node::Kind::list) {
    if (v.node.items.empty()) return v.add_error("the list is empty: write e.g. [30s, 2m, 10m]");
    for (const Node& item : v.node.items) ok = add({v.draft, v.problems, item, v.path, v.secret}) && ok;
  } else {
    ok = add(v);
  }
  if (ok) gate(v).wait = std::move(all);
  return ok;
}

bool set_pauses(Value& v) {
  std::string word;
  if (!v.choice(word, {"message", "queue"})) return false;
  gate(v).pauses_queue = word == "queue";
  return true;
}

constexpr std::string_view kAsForQueues = "as for queues, for every queue that does not set it";

}  // namespace

std::vector<Key> gate_keys() {
  // clang-format off
  const std::vector<Key> of_queues = {
    {{"queues.*.gate.rate", "rate, e.g. 200/s", "", true, false,
      "maximum rate of publishes to this queue, over all instances together: per s, m or h, 1/h to 100000/s"},
     [](Value& v) { return set_rate(v, gate(v).rate); }},
    {{"queues.*.gate.rate_by.header", "name", "", true, false,
      "header of the message for whose values rate_by.rate applies, to each alone; messages without it share one such rate"},
     set_rate_header},
    {{"queues.*.gate.rate_by.rate", "rate, e.g. 5/s", "", true, false,
      "maximum rate of publishes for each value of the header, over all instances together"},
     [](Value& v) { return set_rate(v, gate(v).by_rate); }},
    {{"queues.*.gate.window.allow", "times of the week, or list of them", "", true, false,
      "when messages may go out: \"Mon-Fri 08:00-18:00\", \"Sat,Sun 10:00-14:00\", \"22:00-06:00\" (every day, ends on the next)"},
     set_window_times},
    {{"queues.*.gate.window.zone", "time zone", "", true, false,
      "time zone of window.allow, e.g. Europe/Berlin; summer time is followed"},
     set_zone},
    {{"queues.*.gate.breaker.open_after", "1 to 1000", "20", true, false,
      "stop publishing when this many of the last of_last outcomes are failures; any key of breaker turns it on"},
     [](Value& v) { return v.optional(gate(v).open_after, &Value::integer, 1, kMostOutcomes); }},
    {{"queues.*.gate.breaker.of_last", "1 to 1000", "100", true, false,
      "how many of the last outcomes are considered"},
     [](Value& v) { return v.optional(gate(v).of_last, &Value::integer, 1, kMostOutcomes); }},
    {{"queues.*.gate.breaker.only", "pattern, or list of patterns", "", true, false,
      "error types (retry-error-type) that count as failures; * matches any characters; default: all failures"},
     set_only},
    {{"queues.*.gate.breaker.wait", "duration, or list of durations", "[30s, 2m, 10m]", true, false,
      "how long it stays open, if it opens for the first, second ... time in a row; the last one repeats; at least 1s"},
     set_wait},
    {{"queues.*.gate.breaker.probes", "1 to 100", "1", true, false,
      "after the wait, how many messages at a time go out as probes"},
     [](Value& v) { return v.optional(gate(v).probes, &Value::integer, 1, kMostProbes); }},
    {{"queues.*.gate.breaker.probe_timeout", "duration", "1m", true, false,
      "how long a probe may be without an answer; 1s to 1d"},
     [](Value& v) { return v.optional(gate(v).probe_timeout, &Value::duration, seconds{1}, hours{24}); }},
    {{"queues.*.gate.breaker.close_after", "1 to 1000", "3", true, false,
      "how many probes in a row must succeed before messages go out as usual"},
     [](Value& v) { return v.optional(gate(v).close_after, &Value::integer, 1, kMostOutcomes); }},
    {{"queues.*.gate.retry_after.cap", "duration", "", true, false,
      "the longest retry-after that is accepted from a consumer; a longer one is shortened; default: the ladder's highest delay"},
     [](Value& v) { return v.optional(gate(v).cap, &Value::duration, Ms{1}, levels::kLongest); }},
    {{"queues.*.gate.retry_after.max", "duration", "10m", true, false,
      "with pauses: queue, the longest that a retry-after holds back the whole queue, 1s to 1d; the failed message may wait longer"},
     [](Value& v) { return v.optional(gate(v).longest_hold, &Value::duration, seconds{1}, hours{24}); }},
    {{"queues.*.gate.retry_after.pauses", "message or queue", "message", true, false,
      "what a consumer's retry-after holds back: the failed message, or the whole queue"},
     set_pauses},
  };
  // clang-format on
  // The defaults have the same keys. The table's strings live as long as the process.
  static const std::vector<std::string> paths = [&] {
    std::vector<std::string> out;
    for (const Key& key : of_queues)
      out.push_back("defaults" + std::string(key.about.path.substr(std::string_view("queues.*").size())));
    return out;
  }();
  std::vector<Key> all;
  for (std::size_t i = 0; i < of_queues.size(); ++i) {
    Key key = of_queues[i];
    key.about.path = paths[i];
    key.about.meaning = kAsForQueues;
    all.push_back(key);
  }
  all.insert(all.end(), of_queues.begin(), of_queues.end());
  return all;
}

}  // namespace rung::confile
