// Builds the gates of a queue from its draft and that of the defaults.
#include "src/config/draft.h"

namespace rung::confile {
namespace {

template <typename T>
void inherit(std::optional<T>& own, const std::optional<T>& from) {
  if (!own) own = from;
}

GateDraft with_defaults(GateDraft own, const GateDraft& from) {
  inherit(own.rate, from.rate);
  inherit(own.by_header, from.by_header);
  inherit(own.by_rate, from.by_rate);
  inherit(own.allow, from.allow);
  inherit(own.zone, from.zone);
  inherit(own.open_after, from.open_after);
  inherit(own.of_last, from.of_last);
  inherit(own.probes, from.probes);
  inherit(own.close_after, from.close_after);
  inherit(own.only, from.only);
  inherit(own.wait, from.wait);
  inherit(own.probe_timeout, from.probe_timeout);
  inherit(own.cap, from.cap);
  inherit(own.longest_hold, from.longest_hold);
  inherit(own.pauses_queue, from.pauses_queue);
  own.present.insert(from.present.begin(), from.present.end());
  return own;
}

class GateBuilder {
 public:
  GateBuilder(const QueueDraft& queue, const GateDraft* defaults, std::string path, const Draft& draft,
              Problems& problems)
      : queue_(queue),
        own_(queue.gate),
        all_(defaults != nullptr ? with_defaults(queue.gate, *defaults) : queue.gate),
        is_defaults_(defaults == nullptr),
        path_(std::move(path)),
        draft_(draft),
        problems_(problems) {}

  GateRules build(const Silence& silence) {
    GateRules out;
    out.rate = all_.rate.value_or(0);
    if (complete("rate_by", "header", "rate", "{ header: tenant, rate: 5/s }") && all_.by_header &&
        all_.by_rate)
      out.rate_by = RateBy{*all_.by_header, *all_.by_rate};
    if (complete("window", "allow", "zone", "{ allow: \"Mon-Fri 08:00-18:00\", zone: Europe/Berlin }") &&
        all_.allow && all_.zone)
      out.window = window();
    if (all_.has("breaker")) out.breaker = breaker();
    out.retry_after.cap = all_.cap;
    out.retry_after.pauses_queue = all_.pauses_queue.value_or(false);
    out.retry_after.longest_hold = all_.longest_hold.value_or(out.retry_after.longest_hold);
    if (all_.longest_hold && !out.retry_after.pauses_queue && concerns("retry_after"))
      problem("retry_after",
              "max limits how long the whole queue is held back, and pauses: message holds back none: "
              "write pauses: queue, or remove max");
    if (draft_.reports_warnings() && silence.means == Silence::Means::success) warn(out, silence);
    return out;
  }

 private:
  // An error in what comes from the defaults alone is reported there.
  bool concerns(const std::string& section) const { return is_defaults_ || own_.has(section); }
  Mark mark(const std::string& key) const {
    const auto it = all_.present.find(key);
    return it != all_.present.end() ? it->second : queue_.mark;
  }
  void problem(const std::string& key, const std::string& what) {
    problems_.add(mark(key), path_ + key + ": " + what);
  }

  // Whether the section is there with both keys; reports the one that is missing.
  bool complete(const std::string& section, const std::string& first, const std::string& second,
                const std::string& example) {
    if (!all_.has(section)) return false;
    const bool has_first = all_.has(section + "." + first), has_second = all_.has(section + "." + second);
    if (has_first && has_second) return true;
    if (!concerns(section)) return false;
    const std::string missing = has_first    ? second + " is"
                                : has_second ? first + " is"
                                             : first + " and " + second + " are";
    problem(section, missing + " missing: write " + example);
    return false;
  }

  std::shared_ptr<const TimeWindow> window() {
    auto parsed = TimeWindow::parse(*all_.allow, *all_.zone);
    if (parsed) return std::make_shared<const TimeWindow>(*std::move(parsed));
    // Both parts were accepted alone; the system's database may have gone away since.
    problem("window", parsed.error().message);
    return nullptr;
  }

  BreakerRules breaker() {
    BreakerRules out;
    out.open_after = all_.open_after.value_or(out.open_after);
    out.of_last = all_.of_last.value_or(out.of_last);
    out.only = all_.only.value_or(out.only);
    out.wait = all_.wait.value_or(out.wait);
    out.probes = all_.probes.value_or(out.probes);
    out.probe_timeout = all_.probe_timeout.value_or(out.probe_timeout);
    out.close_after = all_.close_after.value_or(out.close_after);
    if (out.open_after > out.of_last && concerns("breaker")) {
      const std::string of_last = std::to_string(out.of_last);
      problem("breaker", "open_after (" + std::to_string(out.open_after) + ") is more than of_last (" +
                             of_last + "), so it would never open: write open_after: " + of_last +
                             " or less, or a larger of_last");
    }
    return out;
  }

  void warn(const GateRules& gate, const Silence& silence) {
    // Once for all queues that have both from the defaults.
    if (gate.breaker && (concerns("breaker") || queue_.success_mark))
      problems_.warn(mark("breaker"), path_ + "breaker: a delivery without an answer for " +
                                          levels::format_duration(silence.after) +
                                          " counts as a success: set success.reported_within if consumers "
                                          "report their results");
  }

  const QueueDraft& queue_;
  const GateDraft& own_;
  const GateDraft all_;
  const bool is_defaults_;
  const std::string path_;  // "queues.orders.gate."
  const Draft& draft_;
  Problems& problems_;
};

}  // namespace

GateRules build_gate(const QueueDraft& queue, const GateDraft* defaults, const std::string& section,
                     const Silence& silence, const Draft& draft, Problems& problems) {
  return GateBuilder(queue, defaults, section + queue.name + ".gate.", draft, problems).build(silence);
}

}  // namespace rung::confile
