#include "src/bridge/changes/bulk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "levels/duration.h"
#include "src/bridge/flight/transitions.h"
#include "src/bridge/leases/shards.h"
#include "src/core/base/failpoint.h"
#include "src/core/base/utf8.h"
#include "src/io/log.h"

namespace rung::bridge {
namespace {

using Go = BulkVerdict::Go;

constexpr double kRampSeconds = 10;  // at each rate
constexpr double kStepSeconds = 0.2;
// For stop_above: the tasks that are looked at, the last that were processed; and how many of them may wait
// to be sent, so that the others tell of failures.
constexpr int kLookedAt = 10'000;
constexpr std::int64_t kMostUnsent = 1000;
// A canary that finds fewer tasks to send among so many ends.
constexpr std::int64_t kMostProcessed = 10'000;
constexpr std::int64_t kFewest = 20;      // a share of fewer says nothing
constexpr std::size_t kNamed = 3;         // failures that the reason names
constexpr std::size_t kErrorShown = 200;  // bytes of each

std::string error_of(const SentTask& task) {
  return task.outcome == Outcome::pending ? "parked again without being sent" : error_line("", task.error);
}

struct FailedTask {
  TaskId id;
  std::string why;
};

// "269741562311741440: connection refused; ...", and how many more.
std::string named(const std::vector<FailedTask>& failures) {
  std::string text;
  for (std::size_t i = 0; i < std::min(failures.size(), kNamed); ++i)
    text += fmt::format("{}{}: {}", i == 0 ? "" : "; ", failures[i].id.str(),
                        clean_utf8(failures[i].why, kErrorShown));
  if (failures.size() > kNamed) text += fmt::format("; and {} more", failures.size() - kNamed);
  return text;
}

// Why the silence of a canary's task until `end`, of its watch, is no success; "" = it is one. None: a look
// from before the end of the watch does not know of a queue that was detached since.
std::optional<std::string> why_no_success(const SentTask& task, EpochMs end, EpochMs now, Ms watch,
                                          const RuleBook& rules, const AttachmentRecords& records) {
  const QueueRules& queue = rules.queue(task.queue);
  if (task.silence.value_or(queue.silence).means == Silence::Means::failure)
    return "no success was reported within " + levels::format_duration(watch);
  if (!queue.needs_attachment) return "";
  const auto known = records.find(task.queue);
  const AttachmentRecord* record = known == records.end() ? nullptr : &known->second;
  if (const std::string held = held_because(record, *task.published_at); !held.empty())
    return "its silence says nothing: " + held;
  if (record != nullptr && record->checked_at < end && now - end < kUnverifiedSilence) return std::nullopt;
  return "";
}

BulkVerdict judge_canary(Store& store, const Bulk& bulk, const RuleBook& rules, EpochMs now) {
  // All that it has processed is the canary.
  const auto sent =
      store.sent_by_bulk(bulk.id, static_cast<int>(std::min<std::int64_t>(bulk.done, INT32_MAX)));
  const auto records = attachments_of(store, sent);
  const std::optional<Ms> watch = bulk.care.watch;
  std::int64_t tried = 0, succeeded = 0, open = 0;  // open: it may still succeed, or fail
  std::vector<FailedTask> failures;
  for (const SentTask& task : sent) {
    if (is_withdrawn(task)) continue;
    ++tried;
    if (task.outcome == Outcome::succeeded) {
      ++succeeded;
    } else if (has_failed(task)) {
      failures.push_back({task.id, error_of(task)});
    } else if (task.held && task.published_at) {
      failures.push_back({task.id, "its silence is held open: a failure could not have arrived"});
    } else if (const auto read = when_read(task, records);
               watch && task.state == State::awaiting && read && now - *read >= *watch) {
      const auto why = why_no_success(task, *read + *watch, now, *watch, rules, records);
      open += why ? 0 : 1;
      succeeded += why && why->empty() ? 1 : 0;
      if (why && !why->empty()) failures.push_back({task.id, *why});
    } else {
      ++open;
    }
  }
  if (!failures.empty())
    return {Go::stop,
            fmt::format("{} of the canary's {} failed: {}", failures.size(), tried, named(failures))};
  if (open > 0) return {Go::wait, {}};
  if (succeeded == 0 && bulk.done < bulk.total && !planted(Bug::canary_of_nothing))
    return {Go::stop, "no task of the canary was sent: all of them had ended before"};
  return {Go::passed, {}};
}

BulkVerdict judge_failures(Store& store, const Bulk& bulk) {
  const auto sent = store.sent_by_bulk(bulk.id, kLookedAt);
  std::vector<FailedTask> failures;
  for (const SentTask& task : sent) {
    if (has_failed(task)) failures.push_back({task.id, error_of(task)});
  }
  const SentCounts counts = count(sent);
  const std::int64_t unsent = counts.unsent, published = counts.sent - unsent;
  const auto failed = static_cast<double>(failures.size());
  if (failed > *bulk.care.stop_above / 100 * static_cast<double>(std::max(published, kFewest)))
    return {Go::stop, fmt::format("{} of the last {} sent failed, more than {}%: {}", failures.size(),
                                  published, *bulk.care.stop_above, named(failures))};
  // Their queue takes fewer than the rate: what fails among them is not known yet.
  return {unsent >= kMostUnsent && bulk.done < bulk.total ? Go::wait : Go::on, {}};
}

}  // namespace

double rate_of(const Bulk& bulk) {
  const bool in_canary = bulk.care.canary > 0 && !bulk.canary_done;
  if (!bulk.care.ramp || in_canary || planted(Bug::ramp_at_once)) return bulk.rate;
  // After k doublings kRampSeconds * (2^k - 1) have been sent: so the count alone says where it stands.
  const auto sent = static_cast<double>(std::max<std::int64_t>(bulk.applied - bulk.care.canary, 0));
  return std::min(bulk.rate, std::exp2(std::floor(std::log2(sent / kRampSeconds + 1))));
}

int step_size(const Bulk& bulk) {
  // With a look at the failures once a second.
  const double per_step = bulk.care.stop_above ? 5 : 1;
  const double wanted = rate_of(bulk) * per_step * kStepSeconds;
  constexpr int kMost = static_cast<int>(kMostInBatch);
  const int size = wanted > 0 ? std::clamp(static_cast<int>(std::ceil(wanted)), 1, kMost) : kMost;
  if (bulk.care.canary == 0 || bulk.canary_done) return size;
  const std::int64_t sent = planted(Bug::canary_too_large) ? 0 : bulk.applied;
  return static_cast<int>(std::clamp<std::int64_t>(bulk.care.canary - sent, 1, size));
}

BulkVerdict judge(Store& store, const Bulk& bulk, const RuleBook& rules, EpochMs now) {
  if (bulk.care.canary > 0 && !bulk.canary_done && bulk.done > 0) {
    if (bulk.applied >= bulk.care.canary || bulk.done == bulk.total)
      return judge_canary(store, bulk, rules, now);
    if (bulk.done >= kMostProcessed)
      return {Go::stop, fmt::format("only {} of the first {} tasks could be redriven: too few for the "
                                    "canary",
                                    bulk.applied, bulk.done)};
  }
  // It reads many rows: once for the tasks of each second, however many steps that is, and at the end.
  const double rate = rate_of(bulk);
  const bool looks = rate <= 0 || bulk.done == bulk.total ||
                     std::fmod(static_cast<double>(bulk.done), rate) < step_size(bulk);
  if (bulk.care.stop_above && bulk.done > 0 && looks) return judge_failures(store, bulk);
  return {};
}

namespace {

constexpr Ms kTryAgain{1000};   // after an error
constexpr Ms kAtOnce{1};        // there may be more
constexpr Ms kNearly{20};       // the table's clock differs from ours
constexpr Ms kMadeUpFor{200};   // a step that is late by more makes the following ones late
constexpr Ms kTakenOver{1000};  // overdue for longer: another instance has taken it over
constexpr Ms kLease{10'000};    // another instance may take over a step this old

BulkProgress try_step(Store& store, Bulk bulk, const std::string& runner, const Fence& fence,
                      const RuleBookPtr& rules) {
  BulkProgress out;
  BulkStep step{bulk.id, runner, bulk.last};
  if (bulk.care.any()) {
    out.verdict = judge(store, bulk, *rules, store.now());
    if (out.verdict.go != Go::on) store.judge_bulk(step, out.verdict, kLookAtOutcomes);
    if (out.verdict.go == Go::wait || out.verdict.go == Go::stop) return out;
    if (out.verdict.go == Go::passed) bulk.canary_done = bulk.done;
  }
  step.rate = rate_of(bulk);
  step.keeps_sent = bulk.action == BulkAction::redrive || bulk.action == BulkAction::fire;
  const auto ids = store.bulk_next(step, step_size(bulk));
  if (ids.empty()) return out;
  std::vector<Event> events;
  for (const TaskId id : ids) events.push_back(event_of(bulk, id));
  out.decisions = apply_step(store, events, fence, decider(rules), step);
  return out;
}

}  // namespace

BulkProgress perform_step(Store& store, const Bulk& bulk, const std::string& runner, const Fence& fence,
                          const RuleBookPtr& rules) {
  auto done = result_of([&] { return try_step(store, bulk, runner, fence, rules); });
  if (done || done.error().kind != Error::Kind::permanent || done.error().message == kNotItsRunner)
    return or_throw(std::move(done));
  // Else it would be taken again and again, before all others.
  BulkProgress stopped{{BulkVerdict::Go::stop, "its next step failed: " + done.error().message}, {}};
  store.judge_bulk({bulk.id, runner, bulk.last}, stopped.verdict, Ms{0});
  return stopped;
}

BulkRunner::BulkRunner(const Sidecar& sidecar)
    : sidecar_(sidecar),
      runner_("node " + sidecar.settings.identity.name),
      // Without a shard, tasks sent now would wait for another instance's sweep.
      step_(sidecar.table.add(
          {"bulks", kTryAgain, Lane::flow, Jobs::Who::owners, [this] { return step(); }, true})) {}

Jobs::Work BulkRunner::step() {
  // The store's thread uses nothing of this object.
  return [this, runner = runner_, fence = sidecar_.shards.fence(),
          rules = sidecar_.rules](Store& store) -> Jobs::Then {
    const auto bulk = store.take_bulk(runner, kLease);
    if (!bulk) return [this] { go_on(); };
    return [this, bulk = *bulk, progress = perform_step(store, *bulk, runner, fence, rules)] {
      note(bulk, progress);
      sidecar_.table.soon(step_, kAtOnce);
    };
  };
}

void BulkRunner::note(const Bulk& bulk, const BulkProgress& progress) {
  for (const Decision& decision : progress.decisions) sidecar_.transitions.decided(decision);
  const Go go = progress.verdict.go;
  if (go == Go::passed)
    log::info("canary succeeded: the redrive goes on", {{"bulk", bulk.id}, {"sent", bulk.done}});
  if (go == Go::stop) log::warn("bulk stopped", {{"bulk", bulk.id}, {"reason", progress.verdict.why}});
  const double rate = rate_of(bulk), many = static_cast<double>(progress.decisions.size());
  if (go == Go::wait) {
    due_[bulk.id] = sidecar_.loop.clock().boot() + kLookAtOutcomes;
  } else if (many == 0) {
    if (go != Go::stop) log::info("bulk completed", {{"bulk", bulk.id}});
    due_.erase(bulk.id);
  } else if (rate > 0) {
    // As bulk_step counts it: from when this step was due, so that the time a step takes costs no rate. It
    // may have come before that, if a person has raised the rate.
    const BootMs now = sidecar_.loop.clock().boot();
    BootMs& due = due_.try_emplace(bulk.id, now).first->second;
    due = std::clamp(due, now - kMadeUpFor, now) + Ms{static_cast<std::int64_t>(1000 * many / rate)};
  }
}

// No bulk is due: waits until a known one is. Others are found().
void BulkRunner::go_on() {
  const BootMs now = sidecar_.loop.clock().boot();
  std::erase_if(due_, [&](const auto& bulk) { return bulk.second + kTakenOver < now; });  // taken over
  const auto next = std::ranges::min_element(due_, {}, [](const auto& bulk) { return bulk.second; });
  if (next != due_.end()) sidecar_.table.soon(step_, std::max(next->second - now, kNearly));
}

}  // namespace rung::bridge
