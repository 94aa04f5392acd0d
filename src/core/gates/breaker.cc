#include "src/core/gates/breaker.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "levels/duration.h"
#include "src/core/base/utf8.h"
#include "src/core/rules/target_rules.h"
#include "src/core/task/task.h"

namespace rung {
namespace {

using BreakerState = Breaker::State;
using Delivered = DeliveryOutcome::Kind;

constexpr char kSucceeded = '.', kFailed = 'x';
constexpr std::size_t kErrorShown = 200;  // bytes
// A probe that was granted but not published: its instance died, or its task was cancelled. It says nothing
// about the target, so another may go.
constexpr Ms kPublishWithin{5000};
constexpr double kRampFrom = 0.1;

constexpr std::array<std::string_view, 3> kStateWords{"closed", "open", "half_open"};

void turn(Breaker& breaker, BreakerState state, EpochMs now) {
  breaker.state = state;
  breaker.since = now;
  breaker.until.reset();
  breaker.outcomes.clear();
  breaker.succeeded = 0;
  breaker.probes.clear();
}

void open(Breaker& breaker, const BreakerRules& rules, std::string reason, EpochMs now) {
  turn(breaker, BreakerState::open, now);
  const auto which = std::min<std::size_t>(static_cast<std::size_t>(breaker.opened), rules.wait.size() - 1);
  breaker.until = now + rules.wait[which];
  if (breaker.opened++ == 0) breaker.opened_at = now;
  breaker.reason = std::move(reason);
}

void count(Breaker& breaker, const BreakerRules& rules, const DeliveryOutcome& outcome, Unanswered silence,
           EpochMs now) {
  std::string& outcomes = breaker.outcomes;
  const bool presumed = silence == Unanswered::succeeded;
  switch (outcome.kind) {
    case Delivered::published:
      if (presumed) outcomes += kSucceeded;
      break;
    case Delivered::succeeded:
      if (!presumed) outcomes += kSucceeded;
      break;
    case Delivered::failed: {
      const auto counted = presumed ? outcomes.rfind(kSucceeded) : std::string::npos;
      if (counted != std::string::npos) {
        outcomes[counted] = kFailed;
      } else {
        outcomes += kFailed;
      }
      break;
    }
    case Delivered::dropped:
      return;
  }
  const auto most = static_cast<std::size_t>(rules.of_last);
  if (outcomes.size() > most) outcomes.erase(0, outcomes.size() - most);
  const auto failures = std::ranges::count(outcomes, kFailed);
  if (failures < rules.open_after) return;
  open(breaker, rules,
       std::to_string(failures) + " of the last " + std::to_string(outcomes.size()) +
           " deliveries failed, the last one with: " + outcome.error,
       now);
}

// For so long a probe may be without an answer.
Ms patience(const Breaker::Probe& probe, const BreakerRules& rules) {
  return probe.published ? rules.probe_timeout : kPublishWithin;
}

void probe_succeeded(Breaker& breaker, const BreakerRules& rules, EpochMs now) {
  if (++breaker.succeeded < rules.close_after) return;
  turn(breaker, BreakerState::closed, now);
  breaker.opened = 0;
}

}  // namespace

std::string_view to_word(Breaker::State state) { return kStateWords.at(static_cast<std::size_t>(state) - 1); }

std::optional<Breaker::State> breaker_state_from(std::string_view word) {
  return from_word<BreakerState>(kStateWords, word);
}

bool is_breaker_failure(const BreakerRules& rules, std::string_view error_type) {
  return rules.only.empty() || std::ranges::any_of(rules.only, [&](const std::string& only) {
           return matches_pattern(only, error_type);
         });
}

std::optional<DeliveryOutcome> outcome_of(const Task& task, const Attempt& attempt,
                                          const BreakerRules& rules) {
  const int probe = attempt.attempt == task.attempt ? task.probe : 0;
  switch (attempt.outcome) {
    case Outcome::pending:
      if (!attempt.published_at) return std::nullopt;
      return DeliveryOutcome{Delivered::published, probe, {}};
    case Outcome::succeeded:
      return DeliveryOutcome{Delivered::succeeded, probe, {}};
    case Outcome::failed:
    case Outcome::timed_out:
    case Outcome::returned:
      if (!is_breaker_failure(rules, task.error_type))
        return DeliveryOutcome{Delivered::succeeded, probe, {}};
      return DeliveryOutcome{Delivered::failed, probe, attempt.error};
  }
  return std::nullopt;
}

void PendingOutcomes::add(DeliveryOutcome outcome, int of_last) {
  const bool is_probe = outcome.probe != 0;
  if (!is_probe && outcome.kind == Delivered::dropped) return;  // it says nothing
  matters_ = matters_ || is_probe || outcome.kind == Delivered::failed;
  outcome.error =
      clean_utf8(error_line("", outcome.error), kErrorShown);  // others write it, as long as they like
  all_.push_back(std::move(outcome));
  if (all_.size() <= 4 * static_cast<std::size_t>(of_last)) return;
  const auto oldest = std::ranges::find(all_, 0, &DeliveryOutcome::probe);
  if (oldest != all_.end()) all_.erase(oldest);
}

void record(Breaker& breaker, const BreakerRules& rules, const DeliveryOutcome& outcome, Unanswered silence,
            EpochMs now) {
  if (breaker.state == BreakerState::closed && outcome.probe == 0)
    return count(breaker, rules, outcome, silence, now);
  // While it is open, only its own probes say something new: the other messages were sent before it opened.
  const auto probe = std::ranges::find(breaker.probes, outcome.probe, &Breaker::Probe::number);
  if (outcome.probe == 0 || probe == breaker.probes.end()) return;
  switch (outcome.kind) {
    case Delivered::published:
      probe->published = true;
      probe->since = now;
      return;
    case Delivered::dropped:
      breaker.probes.erase(probe);
      return;
    case Delivered::succeeded:
      breaker.probes.erase(probe);
      return probe_succeeded(breaker, rules, now);
    case Delivered::failed:
      return open(breaker, rules, "a probe failed: " + outcome.error, now);
  }
}

bool expire_probes(Breaker& breaker, const BreakerRules& rules, Unanswered silence, EpochMs now) {
  bool found = false;
  while (true) {
    const auto late = std::ranges::find_if(breaker.probes, [&](const Breaker::Probe& probe) {
      return std::chrono::abs(now - probe.since) > patience(probe, rules);
    });
    if (late == breaker.probes.end()) return found;
    found = true;
    const bool published = late->published;
    breaker.probes.erase(late);
    if (!published) continue;
    if (silence == Unanswered::succeeded) {
      probe_succeeded(breaker, rules, now);
    } else {
      open(breaker, rules, "a probe got no answer", now);
    }
  }
}

int take_probe(Breaker& breaker, const BreakerRules& rules, EpochMs now) {
  if (breaker.state == BreakerState::closed || (breaker.until && *breaker.until > now)) return 0;
  if (breaker.state == BreakerState::open) {
    breaker.state = BreakerState::half_open;
    breaker.since = now;
    breaker.until.reset();
  }
  // No more than can still be needed.
  const int most = std::min(rules.probes, rules.close_after - breaker.succeeded);
  if (static_cast<int>(breaker.probes.size()) >= most) return 0;
  breaker.probes.push_back({++breaker.last_probe, now, false});
  return breaker.last_probe;
}

std::optional<EpochMs> next_turn(const Breaker& breaker, const BreakerRules& rules) {
  std::optional<EpochMs> next = breaker.until;
  for (const Breaker::Probe& probe : breaker.probes) {
    const EpochMs expires = probe.since + patience(probe, rules) + Ms{1};
    next = std::min(next.value_or(expires), expires);
  }
  return next;
}

double ramp_up(const Breaker& breaker, EpochMs now) {
  if (breaker.since.ms == 0 || breaker.state != BreakerState::closed) return 1.0;
  const auto steps =
      static_cast<double>((now - breaker.since).count()) / static_cast<double>(kRampStep.count());
  return steps > 10 ? 1.0 : std::min(1.0, kRampFrom * std::exp2(std::max(std::floor(steps), 0.0)));
}

std::string describe_change(const Breaker& after) {
  if (after.state == BreakerState::closed)
    return "after " + levels::format_duration(after.since - after.opened_at);
  return after.reason + "; probes from " + format_utc(after.until.value_or(after.since)) + " UTC";
}

std::string detail_json(const Breaker& breaker) {
  auto probes = nlohmann::json::array();
  for (const Breaker::Probe& probe : breaker.probes)
    probes.push_back({probe.number, probe.since.ms, probe.published});
  return nlohmann::json{{"opened", breaker.opened},         {"opened_at", breaker.opened_at.ms},
                        {"outcomes", breaker.outcomes},     {"succeeded", breaker.succeeded},
                        {"last_probe", breaker.last_probe}, {"probes", std::move(probes)}}
      .dump();
}

bool read_detail(Breaker& breaker, std::string_view json) try {
  if (json.empty()) return true;
  const auto detail = nlohmann::json::parse(json);
  // They choose a wait, count, and number: what a person wrote must not overflow.
  constexpr int kMostCounted = 1'000'000, kLastProbe = 2'000'000'000;
  Breaker read = breaker;
  read.opened = std::clamp(detail.value("opened", 0), 0, kMostCounted);
  read.opened_at.ms = detail.value("opened_at", std::int64_t{0});
  read.outcomes = detail.value("outcomes", "");
  read.succeeded = std::clamp(detail.value("succeeded", 0), 0, kMostCounted);
  read.last_probe = detail.value("last_probe", 0);
  if (read.last_probe < 0 || read.last_probe > kLastProbe) return false;
  for (const auto& probe : detail.value("probes", nlohmann::json::array())) {
    read.probes.push_back(
        {probe.at(0).get<int>(), EpochMs{probe.at(1).get<std::int64_t>()}, probe.at(2).get<bool>()});
  }
  breaker = std::move(read);
  return true;
} catch (const nlohmann::json::exception&) {
  return false;
}

}  // namespace rung
