#include "src/cli/attach/move_pauses.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/api/queues/pauses.h"
#include "src/cli/attach/under_way.h"
#include "src/cli/service/retry.h"

namespace rung::cli {
namespace {

// What is left of a person's pause must last for a step: some statements, and the sidecars' next look.
constexpr Ms kLeastLeft{30'000};

// The later end; none is the latest.
bool ends_later(const Pause& one, const Pause& other) {
  if (!one.until || !other.until) return !one.until && other.until;
  return *one.until > *other.until;
}

}  // namespace

bool MovePauses::is_ours(const Pause& pause) const { return pause.reason == "rung move to " + to_; }

Result<std::optional<Pause>> MovePauses::in_force(const MoveGroup& group) const {
  const auto pauses = retry_transient([&] { return group.session.store->pauses(); });
  if (!pauses) return tl::unexpected(pauses.error());
  const auto found =
      std::ranges::find_if(*pauses, [&](const Pause& p) { return p.queue == queue_ && !p.over; });
  return found == pauses->end() ? std::nullopt : std::optional(*found);
}

Result<bool> MovePauses::is_left_over(const MoveGroup& group) const {
  const auto pause = in_force(group);
  if (!pause) return tl::unexpected(pause.error());
  return *pause && is_ours(**pause);
}

int MovePauses::pause(Held& held, const Pause* persons) {
  NewPause wanted{queue_, std::nullopt, cli_user(), "rung move to " + to_};
  if (persons != nullptr) {
    wanted.until = persons->until;
    wanted.reason = persons->reason;
  }
  const auto made = retry_transient([&] { return held.group->session.store->pause(wanted); });
  if (!made) return report_error(made.error());
  held.made = true;
  held.persons = persons != nullptr;
  tell("group " + held.group->name + ": queue " + queue_ + " is paused");
  return kSuccess;
}

int MovePauses::set(const std::vector<MoveGroup*>& groups) {
  std::optional<Pause> persons;
  for (MoveGroup* group : groups) {
    auto before = in_force(*group);
    if (!before) return report_error(before.error());
    Held held{group, *before, *before && !is_ours(**before)};
    if (held.persons && (!persons || ends_later(**before, *persons))) persons = **before;
    held_.push_back(std::move(held));
  }
  if (auto lasts = hold(); !lasts) return report_error(lasts.error());
  for (Held& held : held_) {
    if (held.before) continue;
    const bool is_target = &held == &held_.back();
    const int code = pause(held, is_target && persons ? &*persons : nullptr);
    if (code == kSuccess) continue;
    for (Held& each : held_) {
      if (each.made) end(each);
    }
    return code;
  }
  return kSuccess;
}

Result<void> MovePauses::hold() const {
  for (const Held& held : held_) {
    const auto pause = in_force(*held.group);
    if (!pause) return tl::unexpected(pause.error());
    if (!*pause) {
      if (!held.before && !held.made) continue;  // set() has not come to it yet
      return permanent("group " + held.group->name + ": somebody has resumed queue " + queue_ +
                       ": run rung move again");
    }
    const auto now = held.group->session.store->now();
    if (!now) return tl::unexpected(now.error());
    if ((*pause)->until && *(*pause)->until < *now + kLeastLeft)
      return permanent("group " + held.group->name + ": the pause of queue " + queue_ + " ends too soon, " +
                       api::pause_text(**pause) + ": resume it or make it longer, then run rung move again");
  }
  return {};
}

std::optional<EpochMs> MovePauses::target_since() const {
  const auto& before = held_.back().before;
  return before ? std::optional(before->since) : std::nullopt;
}

void MovePauses::end(Held& held) {
  const std::string group = held.group->name;
  const auto done = retry_transient(
      [&] { return held.group->session.store->resume(queue_, cli_user(), "rung move to " + to_); });
  if (done) {
    held.made = held.persons = false;
  } else {
    report_error(exit_of(done.error()),
                 fmt::format("group {}: queue {} is still paused: {}; to lift it: rung resume {} --group {}",
                             group, queue_, done.error().message, queue_, group));
  }
}

void MovePauses::lift(bool nothing_moved) {
  for (Held& held : held_) {
    const bool left_over = held.before && !held.persons;
    if (left_over || (held.made && (nothing_moved || !held.persons))) end(held);
  }
}

std::string MovePauses::kept() const {
  std::string text;
  for (const Held& held : held_) {
    if (held.persons) text += (text.empty() ? "" : " and ") + held.group->name;
  }
  return text;
}

}  // namespace rung::cli
